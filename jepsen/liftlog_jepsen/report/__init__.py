"""Reports: what a check found, for people.

`page` (HTML) and `text` (terminal) are for histories of logs, `foreign_page` and `foreign_text` for those of
other tools; `foreign` says what the latter need. `picture` and `freshness` read from a Parquet folder what
only the HTML shows. The drawings are `timeline`, `cycle` and `plots`; `shell` is the file around them, with
page.css and page.js. docs/reading-a-report.md explains what one sees.
"""
