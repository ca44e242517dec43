"""The durable engine: claim, lease, fence, heartbeat, retry, worker."""
