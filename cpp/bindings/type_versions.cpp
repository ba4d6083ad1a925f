// Detects changes of Python classes by the number that the interpreter gives each state of a class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace nb = nanobind;

namespace placewright {
namespace {

// Offset of the interpreter's number in a class, which the stable ABI does not give.
constexpr std::size_t kPlace = 384;

unsigned int known_version(nb::handle type) {
    unsigned int version;
    std::memcpy(&version, reinterpret_cast<const char*>(type.ptr()) + kPlace, sizeof version);
    return version;
}

// Makes the interpreter number a class, which it does at a lookup, here of a name that no class has.
void look_up(nb::handle type) {
    static const auto lookup = reinterpret_cast<getattrofunc>(PyType_GetSlot(&PyType_Type, Py_tp_getattro));
    static PyObject* const name = PyUnicode_InternFromString("no attribute of any class");
    Py_XDECREF(lookup(type.ptr(), name));
    PyErr_Clear();
}

// Returns whether this interpreter's numbers are found: a class that changes loses its number, and gets another one.
bool versions_are_known() {
    nb::object type = nb::handle(reinterpret_cast<PyObject*>(&PyType_Type))("Sample", nb::tuple(), nb::dict());
    look_up(type);
    const unsigned int before = known_version(type);
    nb::setattr(type, "changed", nb::none());
    const unsigned int meanwhile = known_version(type);
    look_up(type);
    const unsigned int after = known_version(type);
    return before != 0 && meanwhile == 0 && after != 0 && after != before;
}

// Returns the interpreter's number of a class as it is now; 0 if it gives none. The interpreter sets it to 0 when the
// class or a base of it changes, and gives a new one at the next lookup.
unsigned int version_of(nb::handle type) {
    static const bool known = versions_are_known();
    if (!known) return 0;
    look_up(type);
    return known_version(type);
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
            const unsigned int version = versions_[place];
            if (version == 0 || known_version(types_[place]) != version) found.push_back(place);
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
    nb::class_<TypeVersions>(m, "TypeVersions", "Finds which of the watched classes may have changed.")
        .def(nb::init<>())
        .def("add", &TypeVersions::add, nb::arg("type"), "Watches one more class.")
        .def("changed", &TypeVersions::changed, "The places of the classes that may have changed.")
        .def("accept", &TypeVersions::accept, nb::arg("place"), "Accepts a class as it is now.");
}

}  // namespace placewright
