"""The causal graph: incidents, the rules that find what set them off, and the graph they make."""
