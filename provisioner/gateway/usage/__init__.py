"""What requests used: read from the answers, recorded after them, handed to whoever counts."""
