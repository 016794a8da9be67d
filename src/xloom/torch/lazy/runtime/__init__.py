"""The client behind the device, running what was recorded, and transfers there and back."""
