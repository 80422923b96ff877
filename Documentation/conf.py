# SPDX-License-Identifier: GPL-2.0
"""How Sphinx builds these pages; `make docs` runs it. The pages themselves fit the kernel's tree."""

project = "rnbd"
copyright = "the rnbd authors"
root_doc = "index"
extensions = ["sphinx.ext.graphviz"]
graphviz_output_format = "svg"
html_theme = "alabaster"
html_theme_options = {"page_width": "70em", "sidebar_width": "15em"}
nitpicky = True
