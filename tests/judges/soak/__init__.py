"""Hours of work in minutes: training, dispatches, compilations, processes, cancelled runs and full disks."""
