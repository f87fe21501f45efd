/* The physical limit for reads that end in Python objects: the least a C extension can do per record.
 *
 * `Table(entries_address, data_address, count)` has two operations. `table[i]` is one bounds check and one bytes
 * object. `table.lists(indices_address, pool, batch, laps)` builds and drops `laps` lists of `batch` bytes objects,
 * prefetching as yardstick.c does, so that a timed slot is one call. `table.list_of(...)` returns one such list and
 * exists for the checksum. `table.resolve(indices)` is the least a lazy batch can cost when Python asks for one at a
 * time: an int64 array in, bounds checked, one bytes object of (pointer, length) pairs out. Built against Python's stable interface, like the wheel it is compared with.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

#define TABLE_AHEAD 12
#define PAYLOAD_AHEAD 6

typedef struct {
    uint64_t offset;
    uint32_t length;
    uint32_t zero;
} entry;

typedef struct {
    PyObject_HEAD
    const entry *table;
    const char *base;
    Py_ssize_t count;
} Table;

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    unsigned long long table, base;
    Py_ssize_t count;
    if (kwargs && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Table takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "KKn", &table, &base, &count)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Table *self = (Table *)alloc(type, 0);
    if (!self) return NULL;
    self->table = (const entry *)(uintptr_t)table;
    self->base = (const char *)(uintptr_t)base;
    self->count = count;
    return (PyObject *)self;
}

static void table_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Py_ssize_t table_length(PyObject *self) { return ((Table *)self)->count; }

static PyObject *table_item(PyObject *object, PyObject *key) {
    Table *self = (Table *)object;
    Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0 || i >= self->count) {
        PyErr_SetString(PyExc_IndexError, "index out of range");
        return NULL;
    }
    const entry *e = &self->table[i];
    return PyBytes_FromStringAndSize(self->base + e->offset, (Py_ssize_t)e->length);
}

static void prefetch_record(const char *base, const entry *e) {
    const char *p = base + e->offset;
    uint32_t lines = (e->length + 63) / 64;
    if (lines > 16) lines = 16;
    for (uint32_t i = 0; i < lines; i++) __builtin_prefetch(p + (size_t)i * 64, 0, 3);
}

static PyObject *one_list(const Table *self, const int64_t *idx, Py_ssize_t batch) {
    PyObject *list = PyList_New(batch);
    if (!list) return NULL;
    for (Py_ssize_t i = 0; i < TABLE_AHEAD && i < batch; i++) __builtin_prefetch(&self->table[idx[i]], 0, 3);
    for (Py_ssize_t i = 0; i < PAYLOAD_AHEAD && i < batch; i++) prefetch_record(self->base, &self->table[idx[i]]);
    for (Py_ssize_t i = 0; i < batch; i++) {
        if (i + TABLE_AHEAD < batch) __builtin_prefetch(&self->table[idx[i + TABLE_AHEAD]], 0, 3);
        if (i + PAYLOAD_AHEAD < batch) prefetch_record(self->base, &self->table[idx[i + PAYLOAD_AHEAD]]);
        const entry *e = &self->table[idx[i]];
        PyObject *item = PyBytes_FromStringAndSize(self->base + e->offset, (Py_ssize_t)e->length);
        if (!item || PyList_SetItem(list, i, item) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *table_list_of(PyObject *object, PyObject *args) {
    unsigned long long indices;
    Py_ssize_t batch;
    if (!PyArg_ParseTuple(args, "Kn", &indices, &batch)) return NULL;
    return one_list((const Table *)object, (const int64_t *)(uintptr_t)indices, batch);
}

static PyObject *table_lists(PyObject *object, PyObject *args) {
    unsigned long long indices;
    Py_ssize_t pool, batch, laps;
    if (!PyArg_ParseTuple(args, "Knnn", &indices, &pool, &batch, &laps)) return NULL;
    const int64_t *all = (const int64_t *)(uintptr_t)indices;
    for (Py_ssize_t lap = 0; lap < laps; lap++) {
        PyObject *list = one_list((const Table *)object, all + (lap % pool) * batch, batch);
        if (!list) return NULL;
        Py_DECREF(list);
    }
    return PyLong_FromSsize_t(laps * batch);
}

static PyObject *table_resolve(PyObject *object, PyObject *indices) {
    const Table *self = (const Table *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(indices, &view, PyBUF_SIMPLE) != 0) return NULL;
    const int64_t *idx = view.buf;
    Py_ssize_t batch = view.len / (Py_ssize_t)sizeof *idx;
    PyObject *made = PyBytes_FromStringAndSize(NULL, batch * 16);
    uint64_t *pairs = made ? (uint64_t *)PyBytes_AsString(made) : NULL;
    int outside = 0;
    for (Py_ssize_t i = 0; pairs && i < batch; i++) {
        if ((uint64_t)idx[i] >= (uint64_t)self->count) {
            outside = 1;
            break;
        }
        const entry *e = &self->table[idx[i]];
        pairs[2 * i] = (uint64_t)(uintptr_t)(self->base + e->offset);
        pairs[2 * i + 1] = e->length;
    }
    PyBuffer_Release(&view);
    if (outside) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_IndexError, "index out of range");
        return NULL;
    }
    return made;
}

static PyMethodDef table_methods[] = {
    {"resolve", table_resolve, METH_O, "resolve(indices): (pointer, length) pairs as bytes."},
    {"list_of", table_list_of, METH_VARARGS, "list_of(indices_address, batch): one list of bytes."},
    {"lists", table_lists, METH_VARARGS, "lists(indices_address, pool, batch, laps): records read."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_doc, "A table of entries over mapped bytes."},
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_mp_length, table_length},
    {Py_mp_subscript, table_item},
    {0, NULL},
};

static PyType_Spec table_spec = {
    .name = "yardstick_py.Table",
    .basicsize = sizeof(Table),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = table_slots,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "yardstick_py",
    .m_doc = "The least a C extension can do to turn records into bytes objects.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_yardstick_py(void) {
    PyObject *made = PyModule_Create(&module);
    if (!made) return NULL;
    PyObject *type = PyType_FromSpec(&table_spec);
    if (!type || PyModule_AddObjectRef(made, "Table", type) != 0) {
        Py_XDECREF(type);
        Py_DECREF(made);
        return NULL;
    }
    Py_DECREF(type);
    return made;
}
