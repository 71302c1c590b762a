#pragma once
#include <string>
#include <string_view>

namespace camber::report {

/// The page's source as the build found it (embed_page.cmake).
extern const std::string_view kPageHtml, kPageCss, kPageJs, kUplotJs, kUplotCss, kUplotLicense;

/// Text for the inside of an element: < and & by their names.
std::string escaped(std::string_view text);

}  // namespace camber::report
