#pragma once
#include <string>
#include <string_view>

namespace camber::report {

/// The page's source as the build found it (embed_page.cmake).
extern const std::string_view k_page_html, k_page_css, k_page_js, k_uplot_js, k_uplot_css, k_uplot_license;

/// Text for the inside of an element: < and & by their names.
std::string escaped(std::string_view text);

}  // namespace camber::report
