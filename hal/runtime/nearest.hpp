// "Did you mean": the names closest to a wrong one, for error messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hal {

// Levenshtein distance.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// At most `limit` of `names`, nearest first, joined by ", "; "" if none is near.
inline std::string nearest_names(std::string_view wrong, const std::vector<std::string> &names, size_t limit = 3) {
  std::vector<std::pair<size_t, std::string_view>> near;
  const size_t reach = std::max<size_t>(2, wrong.size() / 3);
  for (const std::string &name : names) {
    const bool inside = wrong.size() >= 3 && name.find(wrong) != std::string::npos;
    const size_t distance = inside ? 1 : edit_distance(wrong, name);
    if (distance <= reach) near.emplace_back(distance, name);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::string text;
  for (size_t i = 0; i < near.size() && i < limit; ++i) text.append(i ? ", " : "").append(near[i].second);
  return text;
}

}  // namespace hal
