"""Publishing a result: to files, to the console, to the workflow and to the pull request."""
