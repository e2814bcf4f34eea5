"""What a simulated node runs on: clock, network, NATS, disk, storage thread, machine."""
