"""The client behind the device, running what was recorded, and data on its way there and back."""
