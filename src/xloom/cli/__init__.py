"""The command line: xloom run, opt, info, ops."""
