"""What logs come wrapped in: archives, standard input, addresses elsewhere. Each gives plain files to read."""
