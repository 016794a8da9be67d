"""One workload per module, which needs nothing of xloom: `prepare` gives what a user's script does again and again."""
