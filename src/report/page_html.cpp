#include <stdexcept>

#include <fmt/format.h>

#include "camber/report/page.h"
#include "report/page_parts.h"

namespace camber::report {

void put(std::string& html, std::string_view mark, std::string_view content) {
  const std::size_t position = html.find(mark);
  if (position == std::string::npos) throw std::logic_error(fmt::format("[report] the page must hold {}", mark));
  html.replace(position, mark.size(), content);
}

std::string without_tags(std::string text) {
  for (std::size_t position = text.find('<'); position != std::string::npos; position = text.find('<', position))
    text.replace(position, 1, "\\u003c");
  return text;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text)
    if (letter == '<')
      result += "&lt;";
    else if (letter == '&')
      result += "&amp;";
    else
      result += letter;
  return result;
}

std::string to_html(const Page& page) {
  std::string html(kPageHtml);
  put(html, "{{uplot_license}}", kUplotLicense);
  put(html, "{{uplot_css}}", kUplotCss);
  put(html, "{{page_css}}", kPageCss);
  put(html, "{{uplot_js}}", kUplotJs);
  put(html, "{{page_js}}", kPageJs);
  put(html, "{{data}}", without_tags(to_json(page)));
  put(html, "{{title}}", escaped(page.title));  // last, and first in the file: no title can be taken for a mark
  return html;
}

}  // namespace camber::report
