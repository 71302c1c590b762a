#include "apps/camber/run_program.h"
#include "apps/python/dataset.h"
#include "apps/python/dataset_writer.h"
#include "apps/python/detector.h"

// torch.classes.camber_program and torch.ops.camber_program: what the Python package builds its classes on.
TORCH_LIBRARY(camber_program, m) {
  using namespace camber::python;
  m.def("answer_of(str[] words) -> str",
        [](const std::vector<std::string>& words) { return told([&] { return camber::app::answer_of(words); }); });
  m.def("degrade_image(Tensor image, str fault, int seed) -> Tensor", &degrade_image);
  m.def("degrade_points(Tensor points, str fault, Tensor objects, Tensor ahead, int seed) -> Tensor", &degrade_points);

  m.def("degrade_cues(Tensor cues, str errors, Tensor available, int scene, int frame, int seed) -> Tensor",
        &degrade_cues);

  m.class_<Frame>("Frame").def(torch::init<std::optional<torch::Tensor>, std::int64_t, double, std::int64_t,
                                           std::int64_t, std::optional<std::int64_t>, std::vector<torch::Tensor>, bool,
                                           torch::Tensor, torch::Tensor, std::vector<std::string>, torch::Tensor,
                                           torch::Tensor, torch::Tensor, std::optional<torch::Tensor>>());
  m.class_<Detector>("Detector")
      .def(torch::init(
          [](const std::string& path) { return told([&] { return c10::make_intrusive<Detector>(path); }); }))
      .def("classes", &Detector::classes)
      .def("options", &Detector::options)
      .def("policy", &Detector::policy)
      .def("threshold", &Detector::threshold)
      .def("previous_sweeps", &Detector::previous_sweeps)
      .def("detect", &Detector::detect);
  m.class_<Session>("Session")
      .def(torch::init([](const c10::intrusive_ptr<Detector>& detector, const std::string& policy) {
        return told([&] { return c10::make_intrusive<Session>(detector, policy); });
      }))
      .def("detect", &Session::detect)
      .def("reset", &Session::reset)
      .def("policy", &Session::policy)
      .def("cues", &Session::cues)
      .def("agreement", &Session::agreement);
  m.class_<Dataset>("Dataset")
      .def(torch::init([](const std::string& root, const std::string& version, std::int64_t threads) {
        return told([&] { return c10::make_intrusive<Dataset>(root, version, threads); });
      }))
      .def("samples", &Dataset::samples)
      .def("scenes", &Dataset::scenes)
      .def("samples_of", &Dataset::samples_of)
      .def("frame", &Dataset::frame);
  m.class_<SceneWriter>("SceneWriter")
      .def("begin_frame", &SceneWriter::begin_frame)
      .def("add_points", &SceneWriter::add_points)
      .def("add_image", &SceneWriter::add_image)
      .def("add_jpeg", &SceneWriter::add_jpeg)
      .def("add_box", &SceneWriter::add_box)
      .def("finish", &SceneWriter::finish);
  m.class_<DatasetWriter>("DatasetWriter")
      .def(torch::init([](const std::string& out, const std::string& version, const std::vector<std::string>& channels,
                          const torch::Tensor& sensors) {
        return told([&] { return c10::make_intrusive<DatasetWriter>(out, version, channels, sensors); });
      }))
      .def("scene", &DatasetWriter::scene)
      .def("finish", &DatasetWriter::finish);
}
