/* Calls that C answers: what is checked of arguments, how trees of them are taken apart, and how trees are made. */

static inline bool sg_holds(PyObject *variable, PyObject *value)
{
    PyObject *found = NULL;
    if (PyContextVar_Get(variable, NULL, &found) < 0)
        return false;
    Py_DecRef(found);
    return found == value;
}

/* Whether a program may answer: 1, 0, or -1 with an error. */
static int sg_may_answer(PyObject *context)
{
    PyObject *trace = PyTuple_GetItem(context, TRACE), *unchanged = PyTuple_GetItem(context, UNCHANGED);
    if (trace == &_Py_NoneStruct)
        return 1;
    PyObject *in_use = PyTuple_GetItem(context, IN_USE), *options = PyTuple_GetItem(context, OPTIONS);
    if (!sg_holds(trace, &_Py_NoneStruct) || !sg_holds(in_use, options))
        return PyErr_Occurred() ? -1 : 0;
    if (unchanged == &_Py_NoneStruct)
        return 1;
    PyObject *answer = PyObject_Vectorcall(unchanged, NULL, 0, NULL);
    if (!answer)
        return -1;
    Py_DecRef(answer);
    return answer == &_Py_TrueStruct;
}

/* Call the function that takes any arguments; NotImplemented where there is none. */
static PyObject *sg_general(PyObject *context, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *general = PyTuple_GetItem(context, GENERAL);
    if (general != &_Py_NoneStruct)
        return PyObject_Vectorcall(general, args, (size_t)count, names);
    Py_IncRef(&_Py_NotImplementedStruct);
    return &_Py_NotImplementedStruct;
}

static inline void *sg_type(PyObject *x)
{
    return ((Array *)x)->type;
}

static inline bool sg_is_array(PyObject *x, PyObject *descr, int ndim)
{
    Array *a = (Array *)x;
    return a->type == numpy[2] && a->descr == descr && a->ndim == ndim && (a->flags & CONTIGUOUS) == CONTIGUOUS;
}

static inline bool sg_is_number(PyObject *x, PyObject *descr)
{
    return sg_type(x) == ((struct { Py_ssize_t references; void *type; void *numbers; } *)descr)->numbers;
}

static PyObject *sg_constant(PyObject *context, int i)
{
    return PyTuple_GetItem(PyTuple_GetItem(context, CONSTANTS), i);
}

/* Whether an argument is a constant: None, or a number or text of Python's own types. */
static bool sg_is(PyObject *x, PyObject *constant)
{
    return x == constant || (sg_type(x) == sg_type(constant) && PyObject_RichCompareBool(x, constant, 2) == 1);
}

/* An integer that is used as a size; 0 if it is none. */
static int64_t sg_size(PyObject *x)
{
    int beyond = 0;
    int64_t n = sg_type(x) == &PyLong_Type ? PyLong_AsLongLongAndOverflow(x, &beyond) : 0;
    return beyond ? 0 : n;
}

/* Take apart a tuple of so many items; false if it is none. */
static bool sg_parts_of_tuple(PyObject *x, int count, PyObject **parts)
{
    if (sg_type(x) != &PyTuple_Type || PyTuple_Size(x) != count)
        return false;
    for (int i = 0; i < count; i++)
        parts[i] = PyTuple_GetItem(x, i);
    return true;
}

/* Take apart a list of so many items; false if it is none. */
static bool sg_parts_of_list(PyObject *x, int count, PyObject **parts)
{
    if (sg_type(x) != &PyList_Type || PyList_Size(x) != count)
        return false;
    for (int i = 0; i < count; i++)
        parts[i] = PyList_GetItem(x, i);
    return true;
}

/* Take apart a dict that has these keys in their order; false if it is none. */
static bool sg_parts_of_dict(PyObject *x, PyObject *keys, int count, PyObject **parts)
{
    Py_ssize_t place = 0;
    PyObject *key;
    if (sg_type(x) != &PyDict_Type || PyDict_Size(x) != count)
        return false;
    for (int i = 0; i < count; i++)
        if (!PyDict_Next(x, &place, &key, &parts[i]) || !sg_is(key, PyTuple_GetItem(keys, i)))
            return false;
    return true;
}

/* Let go of objects. */
static void sg_release(int count, PyObject **items)
{
    for (int i = 0; i < count; i++)
        if (items[i])
            Py_DecRef(items[i]);
}

static bool sg_are_there(int count, PyObject **items)
{
    for (int i = 0; i < count; i++)
        if (!items[i])
            return false;
    return true;
}

/* One of the results of a kernel. */
static PyObject *sg_item(PyObject *results, int i)
{
    PyObject *item = PyTuple_GetItem(results, i);
    if (item)
        Py_IncRef(item);
    return item;
}

/* A tuple of items, which it takes over; NULL if one of them is. */
static PyObject *sg_tuple(int count, PyObject **items)
{
    PyObject *tuple = sg_are_there(count, items) ? PyTuple_New(count) : NULL;
    if (!tuple)
        sg_release(count, items);
    for (int i = 0; tuple && i < count; i++)
        PyTuple_SetItem(tuple, i, items[i]);
    return tuple;
}

/* A list of items, which it takes over; NULL if one of them is. */
static PyObject *sg_list(int count, PyObject **items)
{
    PyObject *list = sg_are_there(count, items) ? PyList_New(count) : NULL;
    if (!list)
        sg_release(count, items);
    for (int i = 0; list && i < count; i++)
        PyList_SetItem(list, i, items[i]);
    return list;
}

/* A dict of items, which it takes over, by their keys; NULL if one of them is. */
static PyObject *sg_dict(PyObject *keys, int count, PyObject **items)
{
    PyObject *dict = sg_are_there(count, items) ? PyDict_New() : NULL;
    bool is_whole = dict;
    for (int i = 0; is_whole && i < count; i++)
        is_whole = PyDict_SetItem(dict, PyTuple_GetItem(keys, i), items[i]) == 0;
    sg_release(count, items);
    if (dict && !is_whole) {
        Py_DecRef(dict);
        dict = NULL;
    }
    return dict;
}
