"""Names in generated C: the user's own, except for those that C, C++, their headers or the module use."""

from __future__ import annotations

import re

_KEYWORDS = """
    alignas alignof asm auto bool break case char complex imaginary const constexpr continue default do double else
    enum extern false float for goto if inline int long noreturn nullptr register restrict return short signed
    sizeof static static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned void
    volatile while and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl
    concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend mutable namespace new
    noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast template
    this throw try typeid typename using virtual wchar_t xor xor_eq
"""
_MACROS = """
    EOF I IN M_E NAN OUT alloca assert environ errno far fpclassify hyper i386 interface isfinite isgreater
    isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered linux math_errhandling matherr
    max min near offsetof onexit_t ru_first ru_last sa_handler sa_sigaction setjmp sigmask signbit small stderr
    stdin stdout sv_onstack sys_errlist sys_nerr unix va_arg va_copy va_end va_start w_coredump w_retcode w_stopsig
    w_stopval w_termsig wcswcs
"""
_CALLED = """
    feclearexcept feraiseexcept fetestexcept free int64_t intptr_t malloc memcpy memset realloc size_t ssize_t uint8_t
    uint32_t uint64_t uintptr_t
"""
_MATHEMATICS = """
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal csin csinh
    csqrt ctan ctanh acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint
    lround modf nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh
    tgamma trunc
"""
_OURS = """
    Array Complex address args bytes code connect cores count definition done exact flags kept methods misfit names
    noted numpy parts result results self turns workspace
"""
_LINKED = """
    abort abs accept access aligned_alloc asctime atexit atof atoi atol atoll bcopy bind brk bsearch bzero calloc
    chdir chmod clearerr clock close creat ctime difftime div dup execve exit fclose feof ferror fflush ffs fgetc
    fgetpos fgets fopen fork fprintf fputc fputs fread freopen fscanf fseek fsetpos fsync ftell fwrite gamma getc
    getchar getenv getpid gets gmtime htonl htons index ioctl isalnum isalpha isblank iscntrl isdigit isgraph
    islower isprint ispunct isspace isupper isxdigit j0 j1 jn kill labs ldiv link listen llabs lldiv localeconv
    localtime longjmp lseek main mblen mbstowcs mbtowc memchr memcmp memmove mkdir mktime mmap nice ntohl ntohs open
    pause perror pipe poll printf putc putchar puts qsort quick_exit raise rand random read recv remove rename
    rewind rindex rmdir sbrk scanf select send setbuf setlocale setvbuf signal signgam sleep snprintf socket sprintf
    srand sscanf stat stpcpy stpncpy strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime strlcat
    strlcpy strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll
    strtoul strtoull strxfrm sync system time timespec_get tmpfile tmpnam tolower toupper truncate ungetc unlink
    vfprintf vprintf vsnprintf vsprintf wait wcstombs wctomb write y0 y1 yn
"""

TAKEN = frozenset(
    f"{_KEYWORDS} {_MACROS} {_CALLED} {_OURS}".split()
    + [name + suffix for name in _MATHEMATICS.split() for suffix in ("", "f", "l")]
)
"""Words of C and C++, macros of their headers and of systems, what our text calls, and the names that it has itself."""

LINKED = frozenset(_LINKED.split())
"""Functions that C's library and systems link by their names; numbers and arrays may be called so."""

_PATTERNS = re.compile(r"(_[A-Za-z_]|SG$|SG_|sg_|Py[A-Z_]|kernel_\d|call_|of_[a-z]+\d*$)\w*|[A-Z][A-Z0-9_]{3,}|[A-Z]_H")
"""Names that C keeps for itself, functions and types of ours and of Python's, and words in capitals: macros of systems,
or that of a header of ours."""


def c_word(name: str, is_function: bool = False) -> str:
    """Return a name as C: a reserved name gets an underscore.

    Different names stay different. The name of a function must not clash with the libraries that it is linked with.

    Examples
    --------
    >>> c_word("margin"), c_word("double"), c_word("double_"), c_word("index"), c_word("index", is_function=True)
    ('margin', 'double_', 'double__', 'index', 'index_')
    """
    plain = name.rstrip("_")
    is_taken = plain in TAKEN or (is_function and plain in LINKED) or _PATTERNS.fullmatch(plain)
    return f"{name}_" if is_taken else name
