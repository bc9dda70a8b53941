// Plot: curves or bars over x, panels two in a row, drawn by gnuplot.
//
// Free functions; any thread. Names and titles may be anything: a user's file has them. gnuplot is a program
// that a run does without: the script says all there is to draw.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace verbtwin::tools {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y
  int colour = 0;                                 // curves of one number look alike,
  bool dashed = false;                            // but for this
  std::vector<bool> hollow = {};                  // by point, those that are drawn so; may be shorter
};

struct Panel {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
  std::vector<std::string> categories;  // if any: bars, x counts these from 0
  std::string hollow_means = {};        // in the legend, where any point is hollow
};

/// Two points of a series, to its two curves of one colour.
void add_point(Panel& panel, const std::string& series, std::pair<double, double> published,
               std::pair<double, double> simulated);
/// Two bars beside each other.
void add_bars(Panel& panel, const std::string& category, double published, double simulated);

/// What gnuplot draws them from, to its standard output, as SVG.
std::string plot_script(const std::vector<Panel>& panels);

/// Writes `file` whole or not at all; returns why it did not ("gnuplot is not installed ..."), or nothing.
std::string draw(const std::string& script, const std::filesystem::path& file);

}  // namespace verbtwin::tools
