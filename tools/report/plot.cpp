#include "tools/report/plot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "scenarios/text.hpp"
#include "tools/console/output_file.hpp"

extern char** environ;

namespace verbtwin::tools {

namespace {

constexpr int kPanelWidthPx = 560, kPanelHeightPx = 420, kKeyLineHeightPx = 18;
/// Okabe and Ito's, which people who do not tell red from green can tell as well.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#000000", "#999999"};
constexpr double kLogarithmicFrom = 32;      // the largest x over the smallest
constexpr std::size_t kNameCharacters = 32;  // of a curve, as many as leave room for two beside each other

/// In single quotes gnuplot replaces nothing but a doubled quote, which it does not know at the beginning: no
/// `command`, no @macro. A quote becomes an apostrophe.
std::string in_single_quotes(const std::string& text) {
  std::string out(1, '\'');
  for (const char c : scenarios::for_xml(text)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += ' ';
    } else {
      out += c == '\'' ? std::string("\u2019") : std::string(1, c);
    }
  }
  return out + '\'';
}

bool spans_decades(const Panel& panel) {
  double least = HUGE_VAL, most = 0;
  for (const Curve& curve : panel.curves) {
    for (const auto& [x, y] : curve.points) {
      least = std::min(least, x);
      most = std::max(most, x);
    }
  }
  return panel.categories.empty() && least > 0 && most >= kLogarithmicFrom * least;
}

bool is_hollow(const Curve& curve, std::size_t point) {
  return point < curve.hollow.size() && curve.hollow[point];
}

bool has_hollow(const Panel& panel) {
  return std::ranges::any_of(panel.curves, [](const Curve& curve) {
    return std::ranges::find(curve.hollow, true) != curve.hollow.end();
  });
}

/// "$p0c1" has the points of a curve, "$p0c1h" the hollow ones. A hollow bar stands in place of the full one,
/// a hollow marker on top of it, where the line goes on.
std::string data_of(const Panel& panel, std::size_t number) {
  const bool bars = !panel.categories.empty();
  std::string text;
  const std::size_t curves = panel.curves.size();
  for (std::size_t c = 0; c < curves; ++c) {
    const Curve& curve = panel.curves[c];
    const double beside = bars ? (static_cast<double>(c) + 0.5) * 0.8 / static_cast<double>(curves) - 0.4 : 0;
    std::string all, hollow;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const auto& [x, y] = curve.points[i];
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      const std::string line = fmt::format("{:.6g} {:.6g}\n", x + beside, y);
      if (is_hollow(curve, i)) hollow += line;
      if (!bars || !is_hollow(curve, i)) all += line;
    }
    if (all.empty() && !hollow.empty()) all = "NaN NaN\n";  // the curve keeps its place in the legend
    text += fmt::format("$p{}c{} << EOD\n{}EOD\n", number, c, all);
    if (!hollow.empty()) text += fmt::format("$p{}c{}h << EOD\n{}EOD\n", number, c, hollow);
  }
  return text;
}

std::string style_of(const Curve& curve, bool bars) {
  const auto colour = static_cast<std::size_t>(curve.colour);
  const char* rgb = kColours[colour % std::size(kColours)];
  if (bars) return fmt::format("with boxes fill {} lc rgb '{}'", curve.dashed ? "empty" : "solid 0.8", rgb);
  return fmt::format("with linespoints lw 2 ps 0.6 pt {} dt {} lc rgb '{}'", curve.dashed ? 6 : 7,
                     curve.dashed ? 2 : 1, rgb);
}

/// What is drawn over the curves, and what it means.
std::string hollow_plots(const Panel& panel, std::size_t number) {
  if (!has_hollow(panel)) return "";
  const bool bars = !panel.categories.empty();
  std::string text;
  for (std::size_t c = 0; c < panel.curves.size(); ++c) {
    const Curve& curve = panel.curves[c];
    if (std::ranges::find(curve.hollow, true) == curve.hollow.end()) continue;
    const char* rgb = kColours[static_cast<std::size_t>(curve.colour) % std::size(kColours)];
    const std::string data = fmt::format("$p{}c{}h using 1:2", number, c);
    if (bars) {
      text += fmt::format(", {} with boxes fill empty lw 2 lc rgb '{}' notitle", data, rgb);
    } else {
      text += fmt::format(", {} with points pt 7 ps 0.8 lc rgb '#FFFFFF' notitle", data);
      text += fmt::format(", {} with points pt 6 ps 0.8 lw 2 lc rgb '{}' notitle", data, rgb);
    }
  }
  return text + fmt::format(", keyentry with {} lc rgb '#000000' title {}",
                            bars ? "boxes fill empty" : "points pt 6 ps 0.8 lw 2",
                            in_single_quotes(panel.hollow_means));
}

std::size_t names_beside(const Panel& panel) {
  const bool fit = std::ranges::all_of(
      panel.curves, [](const Curve& curve) { return curve.name.size() <= kNameCharacters; });
  return fit ? 2 : 1;
}

/// Whether categories are short enough to stand beside each other, so that none has to slant.
bool are_level(const Panel& panel) {
  constexpr std::size_t kColumns = 56, kBetweenColumns = 2;
  std::size_t longest = 0;
  for (const std::string& category : panel.categories) longest = std::max(longest, category.size());
  return (longest + kBetweenColumns) * panel.categories.size() <= kColumns;
}

/// Below slanted categories is no room for what they are.
std::string title_of(const Panel& panel) {
  return are_level(panel) || panel.x_label.empty() ? panel.title : panel.title + " by " + panel.x_label;
}

std::string axes_of(const Panel& panel) {
  std::string text = fmt::format(
      "set title {}\nset xlabel {} offset 0, 0.7\nset ylabel {}\n", in_single_quotes(title_of(panel)),
      in_single_quotes(are_level(panel) ? panel.x_label : ""), in_single_quotes(panel.y_label));
  text += spans_decades(panel) ? "set logscale x 2\nset xrange [*:*] noextend\n"
                               : "unset logscale x\nset xrange [0:*]\n";
  if (panel.categories.empty()) return text + "set xtics auto norotate\n";
  text += fmt::format("set xrange [-0.5:{}]\nset boxwidth {:.4g}\nset xtics {} (",
                      static_cast<double>(panel.categories.size()) - 0.5,
                      0.75 / static_cast<double>(std::max<std::size_t>(1, panel.curves.size())),
                      are_level(panel) ? "norotate" : "rotate by -30");
  for (std::size_t i = 0; i < panel.categories.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", in_single_quotes(panel.categories[i]), i);
  return text + ")\n";
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File temporary_file() {
  File file(std::tmpfile());
  if (!file) throw std::system_error(errno, std::generic_category(), "temporary file");
  return file;
}

std::string text_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char buffer[4096];
  for (std::size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    text.append(buffer, read);
  return text;
}

/// Exit status of gnuplot, or what keeps it from starting, negative.
int run_gnuplot(std::FILE* in, std::FILE* out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  char name[] = "gnuplot", no_user_settings[] = "-d";
  char* arguments[] = {name, no_user_settings, nullptr};
  pid_t child = -1;
  const int failure = posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return -failure;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void add_point(Panel& panel, const std::string& series, std::pair<double, double> published,
               std::pair<double, double> simulated) {
  const std::string name = series + ", published";
  auto curve = std::ranges::find(panel.curves, name, &Curve::name);
  if (curve == panel.curves.end()) {
    const int colour = static_cast<int>(panel.curves.size() / 2);
    panel.curves.push_back({name, {}, colour, true});
    panel.curves.push_back({"simulated", {}, colour, false});
    curve = panel.curves.end() - 2;
  }
  curve[0].points.push_back(published);
  curve[1].points.push_back(simulated);
}

void add_bars(Panel& panel, const std::string& category, double published, double simulated) {
  if (panel.curves.empty()) panel.curves = {{"published", {}, 0, true}, {"simulated", {}, 0, false}};
  const auto x = static_cast<double>(panel.categories.size());
  panel.categories.push_back(category);
  panel.curves[0].points.emplace_back(x, published);
  panel.curves[1].points.emplace_back(x, simulated);
}

std::string plot_script(const std::vector<Panel>& panels) {
  std::size_t key_lines = 0;
  for (const Panel& panel : panels) {
    const std::size_t beside = names_beside(panel);
    const std::size_t names = panel.curves.size() + (has_hollow(panel) ? 1 : 0);
    key_lines = std::max(key_lines, (names + beside - 1) / beside);
  }
  const std::size_t columns = std::clamp<std::size_t>(panels.size(), 1, 2);
  const std::size_t lines = (panels.size() + columns - 1) / columns;
  std::string text = fmt::format(
      "set terminal svg size {},{} noenhanced font 'sans,13' background '#FFFFFF'\nset encoding utf8\n"
      "set multiplot layout {},{}\nset key bmargin center horizontal\nset grid\n"
      "set yrange [0:*]\nset offsets graph 0, 0, 0.05, 0\n",
      kPanelWidthPx * columns, (kPanelHeightPx + kKeyLineHeightPx * key_lines) * lines, lines, columns);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const Panel& panel = panels[p];
    text += data_of(panel, p) + axes_of(panel) + fmt::format("set key maxcols {}\nplot", names_beside(panel));
    for (std::size_t c = 0; c < panel.curves.size(); ++c) {
      text += fmt::format("{} $p{}c{} using 1:2 {} title {}", c == 0 ? "" : ",", p, c,
                          style_of(panel.curves[c], !panel.categories.empty()),
                          in_single_quotes(panel.curves[c].name));
    }
    text += hollow_plots(panel, p) + '\n';
  }
  return text + "unset multiplot\n";
}

std::string draw(const std::string& script, const std::filesystem::path& file) {
  try {
    const File in = temporary_file(), out = temporary_file();
    if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() || std::fflush(in.get()) != 0)
      return std::strerror(errno);
    std::rewind(in.get());
    const int status = run_gnuplot(in.get(), out.get());
    if (status == -ENOENT) return "gnuplot is not installed (Debian: gnuplot-nox)";
    if (status < 0) return fmt::format("gnuplot: {}", std::strerror(-status));
    const std::string svg = text_of(out.get());
    if (status != 0 || !svg.ends_with("</svg>\n\n")) return fmt::format("gnuplot failed ({})", status);
    write_file_whole(file, svg);
    return "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

}  // namespace verbtwin::tools
