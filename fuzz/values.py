"""Values that no good input has: numbers at every edge, and text with a special meaning where it is printed."""

from __future__ import annotations

from random import Random

NUMBERS = (
    *("0", "1", "-1", "2", "-0", "-0.0", "0.5", "1.0", "1e-5", "1E5", "0.1e1", "00", "01", "+1", ".5", "1.", "0x10"),
    *("127", "128", "255", "256", "32768", "65536", "2147483647", "2147483648", "-2147483649", "4294967296"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551615"),
    *("18446744073709551616", "18446744073709551617", "340282366920938463463374607431768211456"),
    *("1e308", "1.7976931348623157e308", "1.8e308", "1e309", "1e999", "-1e999", "5e-324", "1e-400", "1e9", "1e300"),
    *("NaN", "Infinity", "-Infinity", "nan", "inf", "true", "false", "null", "0.30000000000000004", "86400", "86401"),
)
"""Numbers as text: the test is how a reader interprets them."""

TEXTS = (
    *("", " ", "a", "0", "1", "-1", "NaN", "Infinity", "null", "true", "passed", "diverged", "error", "skipped"),
    *("cpu", "cuda", "graph", "select", "batch=1", "y", "structure", "triage", "done"),
    *("::error::x", "\n::error file=a,line=1::x", "%0A::set-output name=a::b", "::stop-commands::x", "##[error]x"),
    *("</details></summary></code>", "<script>alert(1)</script>", "<!--", "-->", "]]>", "<![CDATA[", "&lt;&#64;x"),
    *("|a|b|", "\\|", "\\", "`", "``` \n```", "~~~", "# x", "\n\n# head\n\n| a |\n| - |\n", "- [x](javascript:y)"),
    *("@everyone", "#1 GH-2 a/b#3", "https://evil.example", "![x](https://evil.example/x)", "$x$", "***", "_a_"),
    *("\x00", "\x1b[31mred\x1b[0m", "\x1b]0;t\x07", "\r", "a\rb", "\n", "\t", "\x0b\x0c", "\x7f\x85", "\u2028\u2029"),
    *("\u202egnp.exe", "\u2066x", "\u200b", "\ufeff", "\ufffe\uffff", "\ud800", "a\udfffb", "\U0001f642" * 3, "é"),
    *("../../etc/passwd", "/etc/passwd", ".git/config", "C:\\x", "~", "$HOME", "$(id)", "{0} {a!r} %s %n %(a)s"),
    *("'", '"', "'; --", "a: b", "a, b", "[", "{", "*a", "&a", "!!python/object/apply:os.system", "<<", "ß" * 50),
)

LONG = (100, 1_000, 10_000, 100_000)


def odd_number(rng: Random) -> str:
    """A number as text, mostly one that is difficult to read."""
    kind = rng.randrange(10)
    if kind == 0:
        return ("-" if rng.random() < 0.3 else "") + str(rng.randrange(1, 10)) * rng.choice((20, 40, 41, 400, 4_000))
    if kind == 1:
        return f"{rng.randrange(10**6)}e{rng.randint(-400, 400)}"
    if kind == 2:
        return f"0.{'0' * rng.choice((5, 400))}1"
    if kind == 3:
        return str(rng.randint(-(2**65), 2**65))
    return rng.choice(NUMBERS)


def odd_text(rng: Random, *, longest: int = 100_000) -> str:
    """Text that could be misread as something else; sometimes very long."""
    kind = rng.randrange(20)
    if kind == 0:
        return rng.choice(TEXTS[1:]) * min(longest, rng.choice(LONG))
    if kind == 1:
        return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))) for _ in range(rng.randrange(40)))
    if kind < 5:
        return "".join(rng.choice(TEXTS) for _ in range(rng.randrange(1, 6)))
    return rng.choice(TEXTS)
