#pragma once
#include <string_view>

/// The page's source as the build found it (embed_page.cmake).
namespace camber::report {

extern const std::string_view k_page_html, k_page_css, k_page_js, k_uplot_js, k_uplot_css, k_uplot_license;

}  // namespace camber::report
