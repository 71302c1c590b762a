"""What the site of the documentation is made from beside docs/*.md: the program's help, the headers, other files."""
