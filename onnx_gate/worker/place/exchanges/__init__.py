"""What can be exchanged between a wrong part and a right one."""
