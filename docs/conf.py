"""The site: `make docs` builds it with Sphinx into site/, without the internet."""

from importlib.metadata import version as installed

project = "pytest-taskspec"
author = "the authors of pytest-taskspec"
copyright = "the authors of pytest-taskspec, Apache-2.0"  # noqa: A001 - Sphinx names it so
release = version = installed("pytest-taskspec")

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_llms_txt"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_inline"]
suppress_warnings = ["misc.highlighting_failure"]  # task files with placeholders are no plain YAML
templates_path = ["_templates"]
exclude_patterns = ["_build"]
highlight_language = "text"  # blocks without a language show a terminal
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "pytest-taskspec"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "use_edit_page_button": False,
    "show_prev_next": True,
    "navbar_align": "left",
    "navbar_end": ["versions", "theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
llms_txt_summary = "pytest-taskspec runs browser tasks (TaskSpec files) with pytest, and explains every failure."
