"""What a person reads: terminal pages made from the diagnosis and from the signatures."""
