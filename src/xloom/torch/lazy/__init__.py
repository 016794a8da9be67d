"""The lazy device `xla`: operators are recorded, and run as whole programs."""
