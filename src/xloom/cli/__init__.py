"""The command line: xloom run, opt, bench, info, ops, library."""
