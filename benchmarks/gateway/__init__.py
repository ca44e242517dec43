"""The gateway against Envoy, LiteLLM and nothing at all."""
