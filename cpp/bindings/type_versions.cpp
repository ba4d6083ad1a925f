// Whether Python classes are what they were, by the number that the interpreter gives each state of a class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <vector>

namespace nb = nanobind;

namespace placewright {
namespace {

// The interpreter's number of a class as it is now; 0 where it gives none. It sets it to 0 when the class or a base of
// it changes, and gives a new one at the next lookup.
unsigned int version_of(nb::handle type) {
    auto* known = reinterpret_cast<PyTypeObject*>(type.ptr());
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Type_AssignVersionTag(known);
#else
    static PyObject* const name = PyUnicode_InternFromString("__init__");
    _PyType_Lookup(known, name);
#endif
    return known->tp_version_tag;
}

class TypeVersions {
  public:
    void add(nb::type_object type) {
        versions_.push_back(version_of(type));
        types_.push_back(std::move(type));
    }

    std::vector<std::size_t> changed() const {
        std::vector<std::size_t> found;
        for (std::size_t place = 0; place < types_.size(); ++place) {
            const auto* known = reinterpret_cast<PyTypeObject*>(types_[place].ptr());
            if (versions_[place] == 0 || known->tp_version_tag != versions_[place]) found.push_back(place);
        }
        return found;
    }

    void accept(std::size_t place) { versions_.at(place) = version_of(types_.at(place)); }

  private:
    std::vector<nb::type_object> types_;
    std::vector<unsigned int> versions_;
};

}  // namespace

void bind_type_versions(nb::module_& m) {
    nb::class_<TypeVersions>(m, "TypeVersions", "Tells which of some classes may have changed.")
        .def(nb::init<>())
        .def("add", &TypeVersions::add, nb::arg("type"), "Watches one more class.")
        .def("changed", &TypeVersions::changed, "The places of the classes that may have changed.")
        .def("accept", &TypeVersions::accept, nb::arg("place"), "Takes a class as it is now.");
}

}  // namespace placewright
