#pragma once
#include <string>
#include <string_view>

namespace camber::report {

/// The page's source as the build found it (embed_page.cmake).
extern const std::string_view kPageHtml, kPageCss, kPageJs, kUplotJs, kUplotCss, kUplotLicense, kSceneHtml, kSceneCss,
    kSceneJs;

/// Text for the inside of an element: < and & by their names.
std::string escaped(std::string_view text);
/// Replaces the mark {{...}}, which must be there, once.
void put(std::string& html, std::string_view mark, std::string_view content);
/// For the inside of <script>, where only "</" and "<!--" could end or bend it: no bare '<'.
std::string without_tags(std::string text);
std::string base64(std::string_view bytes);

}  // namespace camber::report
