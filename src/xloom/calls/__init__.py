"""Custom calls: code registered under a name and a platform, in each of XLA's ABIs."""
