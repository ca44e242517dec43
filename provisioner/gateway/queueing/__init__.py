"""The order of live traffic: slots per group, the queue in front of them, priority, and what a minute allows."""
