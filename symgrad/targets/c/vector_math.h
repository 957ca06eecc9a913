/* Elementary functions for loops over arrays.

   They have no branches that compilers do not turn into masks, so that loops which call them are vectorised, and are
   exact to 1.8 ulp (tan and tanh to 2.5); zeros keep their signs, and infinities, NaN and denormal numbers give what C's library
   gives. sin, cos and tan of numbers beyond SG_TRIG_MAX, and pow where products are rounded before they are added, are
   those of C's library. Polynomials are minimax fits in two parts, x = hi + lo, where that is needed (Muller et al.,
   Handbook of Floating-Point Arithmetic, chapters 10 and 11); exp and log reduce to |r| < log(2)/2, sin and cos to
   pi/4 in three parts (Cody and Waite).

   It must not be compiled with -ffast-math. */
#define SG static inline __attribute__((always_inline, unused))
SG uint64_t sg_bits(double x){ uint64_t u; memcpy(&u,&x,8); return u; }
SG double sg_real(uint64_t u){ double x; memcpy(&x,&u,8); return x; }
SG uint32_t sg_bitsf(float x){ uint32_t u; memcpy(&u,&x,4); return u; }
SG float sg_realf(uint32_t u){ float x; memcpy(&x,&u,4); return x; }
#ifdef __FMA__
#define SG_FMA(a,b,c) __builtin_fma(a,b,c)
#define SG_FMAF(a,b,c) __builtin_fmaf(a,b,c)
#elif defined(__aarch64__)
#define SG_FMA(a,b,c) __builtin_fma(a,b,c)
#define SG_FMAF(a,b,c) __builtin_fmaf(a,b,c)
#else
#define SG_FMA(a,b,c) ((a)*(b)+(c))
#define SG_FMAF(a,b,c) ((a)*(b)+(c))
#endif
#define SG_SHIFT 0x1.8p52
#define SG_SHIFTF 0x1.8p23f
SG double sg_pow2(double k){ return sg_real((sg_bits(k+SG_SHIFT)<<52) + 0x3ff0000000000000ull); }  /* -1022..1023 */
SG float sg_pow2f(float k){ return sg_realf((sg_bitsf(k+SG_SHIFTF)<<23) + 0x3f800000u); }

/* exp(r + c) = 1 + (r + r*r*q) for |r| < ln(2)/2 */
SG double sg_exp_poly(double r){
  double q = 0x1.af38a9b0ec855p-26;
  q = SG_FMA(q,r,0x1.289185613a3d6p-22);
  q = SG_FMA(q,r,0x1.71de0dae63bb3p-19);
  q = SG_FMA(q,r,0x1.a019b90d2ae7ap-16);
  q = SG_FMA(q,r,0x1.a01a01a7c41d5p-13);
  q = SG_FMA(q,r,0x1.6c16c1788bd90p-10);
  q = SG_FMA(q,r,0x1.11111111109b3p-7);
  q = SG_FMA(q,r,0x1.5555555553d63p-5);
  q = SG_FMA(q,r,0x1.5555555555556p-3);
  return SG_FMA(q,r,0x1.0000000000001p-1);
}
SG double sg_exp(double x){
  x = x > 710.0 ? 710.0 : x;
  x = x < -750.0 ? -750.0 : x;
  double k = (SG_FMA(x,0x1.71547652b82fep0,SG_SHIFT)) - SG_SHIFT;
  double r = SG_FMA(-k,0x1.62e42fefa3800p-1,x);
  r = SG_FMA(-k,0x1.ef35793c76730p-45,r);
  double p = SG_FMA(r*r,sg_exp_poly(r),r) + 1.0;
  double h = (k*0.5+SG_SHIFT)-SG_SHIFT;
  return p*sg_pow2(h)*sg_pow2(k-h);
}
SG double sg_expm1(double x){
  x = x > 710.0 ? 710.0 : x;
  x = x < -60.0 ? -60.0 : x;
  double k = (SG_FMA(x,0x1.71547652b82fep0,SG_SHIFT)) - SG_SHIFT;
  double hi = SG_FMA(-k,0x1.62e42fefa3800p-1,x);
  double lo = k*0x1.ef35793c76730p-45;
  double r = hi-lo, c = (hi-r)-lo;
  double p = SG_FMA(r*r,sg_exp_poly(r),c + c*r);   /* without r, added last */
  double h = (k*0.5+SG_SHIFT)-SG_SHIFT, a = sg_pow2(h), b = sg_pow2(k-h);
  double s = a*b;
  /* s*(r+p) + (s-1); k=1024 only near overflow */
  double y = k == 0.0 ? r+p : (k > 60.0 ? ((r+p)+1.0)*a*b : SG_FMA(s,r,s-1.0) + s*p);
  return x == 0.0 ? x : y;
}
#define SG_LG1 6.666666666666735130e-01
#define SG_LG2 3.999999999940941908e-01
#define SG_LG3 2.857142874366239149e-01
#define SG_LG4 2.222219843214978396e-01
#define SG_LG5 1.818357216161805012e-01
#define SG_LG6 1.531383769920937332e-01
#define SG_LG7 1.479819860511658591e-01
SG double sg_log_r(double z){  /* z = s*s */
  double w = z*z;
  double a = w*SG_FMA(w,SG_FMA(w,SG_LG6,SG_LG4),SG_LG2);
  double b = z*SG_FMA(w,SG_FMA(w,SG_FMA(w,SG_LG7,SG_LG5),SG_LG3),SG_LG1);
  return a+b;
}
SG double sg_log(double x){
  int tiny = x < 0x1p-1022;
  double y = tiny ? x*0x1p54 : x;
  uint64_t hx = sg_bits(y) + (0x3ff0000000000000ull-0x3fe6a09e00000000ull);
  double k = sg_real((hx>>52)|0x4330000000000000ull) - (0x1p52+1023.0);
  k = tiny ? k-54.0 : k;
  double f = sg_real((hx & 0x000fffffffffffffull) + 0x3fe6a09e00000000ull) - 1.0;
  double hf = 0.5*f*f, s = f/(2.0+f);
  double r = sg_log_r(s*s);
  double v = s*(hf+r) + k*1.90821492927058770002e-10 - hf + f + k*6.93147180369123816490e-01;
  v = x == INFINITY ? x : v;
  v = x == 0.0 ? -INFINITY : v;
  return x >= 0.0 ? v : NAN;   /* also NaN */
}
SG double sg_log1p(double x){
  double u = 1.0+x;
  uint64_t hx = sg_bits(u) + (0x3ff0000000000000ull-0x3fe6a09e00000000ull);
  double k = sg_real((hx>>52)|0x4330000000000000ull) - (0x1p52+1023.0);
  double c = (k >= 2.0 ? 1.0-(u-x) : x-(u-1.0))/u;
  c = k < 54.0 ? c : 0.0;
  double f = sg_real((hx & 0x000fffffffffffffull) + 0x3fe6a09e00000000ull) - 1.0;
  f = k == 0.0 ? x : f;
  c = k == 0.0 ? 0.0 : c;
  double hf = 0.5*f*f, s = f/(2.0+f);
  double r = sg_log_r(s*s);
  double v = s*(hf+r) + (k*1.90821492927058770002e-10+c) - hf + f + k*6.93147180369123816490e-01;
  v = x == INFINITY ? x : v;
  v = x == -1.0 ? -INFINITY : v;
  v = x == 0.0 ? x : v;
  return x >= -1.0 ? v : NAN;
}
SG double sg_tanh(double x){   /* -t/(t+2), t = expm1(-2|x|) in two parts */
  double a = fabs(x); a = a > 30.0 ? -60.0 : -2.0*a;
  double k = (SG_FMA(a,0x1.71547652b82fep0,SG_SHIFT)) - SG_SHIFT;
  double hi = SG_FMA(-k,0x1.62e42fefa3800p-1,a), lo = k*0x1.ef35793c76730p-45;
  double r = hi-lo, c = (hi-r)-lo;
  double p = SG_FMA(r*r,sg_exp_poly(r),c + c*r), s = sg_pow2(k), s1 = s-1.0, sr = s*r;
  double th = s1+sr, tl = SG_FMA(s,p,sr-(th-s1)), t = th+tl; tl = (th-t)+tl;
  double d = t+2.0, dl = (2.0-d)+t+tl, v = 1.0/d, q = -t*v;
  q = q - (SG_FMA(q,d,t)+tl+q*dl)*v;
  return x == 0.0 || x != x ? x : copysign(q,x);
}
/* sin and cos for |x| < SG_TRIG_MAX; beyond it the caller takes libm's */
#if defined(__FMA__) || defined(__aarch64__)
#define SG_TRIG_MAX 0x1p40
SG double sg_reduce(double x,double n,double*lo){
  double r = SG_FMA(-n,0x1.921fb54442d18p+0,x);         /* exact */
  double p = n*0x1.1a62633145c07p-54, pl = SG_FMA(n,0x1.1a62633145c07p-54,-p);
  double r2 = r-p;
  *lo = ((r-r2)-p) - SG_FMA(n,-0x1.f1976b7ed8fbcp-110,pl);
  return r2;
}
#else
#define SG_TRIG_MAX 1e5
SG double sg_reduce(double x,double n,double*lo){
  double r = x - n*1.57079632673412561417e+00;          /* 33 bits: exact */
  double w = n*6.07710050630396597660e-11, r2 = r-w;    /* 33 bits: product exact */
  double e = (r-r2)-w;
  *lo = e - n*2.02226624879595063154e-21;
  return r2;
}
#endif
SG void sg_sincos(double x,double*sn,double*cs){
  double t = SG_FMA(x,0x1.45f306dc9c883p-1,SG_SHIFT), n = t-SG_SHIFT, y;
  uint64_t q = sg_bits(t);
  double r = sg_reduce(x,n,&y);
  double z = r*r;
  double p = SG_FMA(z,SG_FMA(z,SG_FMA(z,SG_FMA(z,1.58969099521155010221e-10,-2.50507602534068634195e-08),2.75573137070700676789e-06),-1.98412698298579493134e-04),8.33333333332248946124e-03);
  double v = z*r;
  double s = r - ((z*(0.5*y - v*p) - y) - v*-1.66666666666666324348e-01);
  double c6 = SG_FMA(z,SG_FMA(z,SG_FMA(z,SG_FMA(z,SG_FMA(z,-1.13596475577881948265e-11,2.08757232129817482790e-09),-2.75573143513906633035e-07),2.48015872894767294178e-05),-1.38888888888741095749e-03),4.16666666666666019037e-02);
  double hz = 0.5*z, w = 1.0-hz;
  double c = w + (((1.0-w)-hz) + (z*z*c6 - r*y));
  double ss = q&1 ? c : s, cc = q&1 ? s : c;
  *sn = sg_real(sg_bits(ss) ^ ((q&2)<<62));
  *cs = sg_real(sg_bits(cc) ^ (((q+1)&2)<<62));
}
#define SG_NEAR(x,most) __builtin_expect(fabs(x) < (most), 1)
SG double sg_sin(double x){ double s,c; if(!SG_NEAR(x,SG_TRIG_MAX)) return sin(x); sg_sincos(x,&s,&c); return x == 0.0 ? x : s; }
SG double sg_cos(double x){ double s,c; if(!SG_NEAR(x,SG_TRIG_MAX)) return cos(x); sg_sincos(x,&s,&c); return c; }
SG double sg_tan(double x){ double s,c; if(!SG_NEAR(x,SG_TRIG_MAX)) return tan(x); sg_sincos(x,&s,&c); return x == 0.0 ? x : s/c; }
/* pow by log in two doubles (needs FMA for the split products) */
#if !defined(__FMA__) && !defined(__aarch64__)
SG double sg_pow(double x,double y){ return pow(x,y); }
#else
SG double sg_pow(double x,double y){
  double ax = fabs(x);
  int tiny = ax < 0x1p-1022;
  double m = tiny ? ax*0x1p54 : ax;
  uint64_t hx = sg_bits(m) + (0x3ff0000000000000ull-0x3fe6a09e00000000ull);
  double k = sg_real((hx>>52)|0x4330000000000000ull) - (0x1p52+1023.0);
  k = tiny ? k-54.0 : k;
  double mm = sg_real((hx & 0x000fffffffffffffull) + 0x3fe6a09e00000000ull);
  double f = mm-1.0;
  /* s = f/(2+f) in two parts */
  double d = 2.0+f, dl = f-(d-2.0);
  double s = f/d;
  double sl = (SG_FMA(-s,d,f) - s*dl)/d;
  double z = s*s, zl = SG_FMA(s,s,-z) + 2.0*s*sl;
  /* log m = 2s + s^3*(2/3 + z*(2/5 + ...)) */
  double p = 1.0/21; p = SG_FMA(p,z,1.0/19); p = SG_FMA(p,z,1.0/17); p = SG_FMA(p,z,1.0/15); p = SG_FMA(p,z,1.0/13); p = SG_FMA(p,z,1.0/11);
  p = SG_FMA(p,z,1.0/9); p = SG_FMA(p,z,1.0/7); p = SG_FMA(p,z,1.0/5);
  /* c = 1/3 + z*p in two parts */
  double zp = z*p, ch = 0x1.5555555555555p-2 + zp, cl = (0x1.5555555555555p-2 - ch) + zp + (0x1.5555555555555p-56 + SG_FMA(z,p,-zp) + zl*p);
  double s3 = s*z, s3l = SG_FMA(s,z,-s3) + s*zl + sl*z;
  double t = s3*ch, tl = SG_FMA(s3,ch,-t) + s3*cl + s3l*ch;
  /* log = k*ln2 + 2s + 2t */
  double a = k*0x1.62e42fefa3800p-1, al = k*0x1.ef35793c76730p-45;
  double h1 = a+2.0*s, l1 = (a-h1)+2.0*s; 
  /* a may be 0: then h1=2s exact */
  double h2 = h1+2.0*t, l2 = (h1-h2)+2.0*t;
  double lo = l1+l2+2.0*sl+2.0*tl+al;
  double L = h2+lo, Ll = (h2-L)+lo;
  double e = y*L, el = SG_FMA(y,L,-e) + y*Ll;
  double ee = e > 1000.0 ? 1000.0 : e; ee = ee < -1000.0 ? -1000.0 : ee;
  el = ee == e ? el : 0.0;
  double kk = (ee*0x1.71547652b82fep0+SG_SHIFT)-SG_SHIFT;
  double r = SG_FMA(-kk,0x1.62e42fefa3800p-1,ee);
  double rl = SG_FMA(-kk,0x1.ef35793c76730p-45,el);
  double rr = r+rl; double rc = (r-rr)+rl;
  double g = SG_FMA(rr*rr,sg_exp_poly(rr),rc+rc*rr) + rr + 1.0;
  double h = (kk*0.5+SG_SHIFT)-SG_SHIFT;
  double v = g*sg_pow2(h)*sg_pow2(kk-h);
  /* special cases */
  double yt = trunc(y), yh = trunc(0.5*y)*2.0;
  int isint = yt == y, odd = isint && yh != y && fabs(y) < 0x1p53;
  v = ax == 0.0 ? (y < 0.0 ? INFINITY : 0.0) : v;
  v = ax == INFINITY ? (y < 0.0 ? 0.0 : INFINITY) : v;
  v = fabs(y) == INFINITY ? (ax == 1.0 ? 1.0 : ((ax > 1.0) == (y > 0.0) ? INFINITY : 0.0)) : v;
  v = x < 0.0 && !isint && ax != INFINITY ? NAN : v;
  v = odd ? copysign(v,x) : v;
  v = x != x || y != y ? x+y : v;
  v = y == 0.0 || x == 1.0 ? 1.0 : v;
  return v;
}
#endif
SG float sg_expf(float x){
  x = x > 90.0f ? 90.0f : x;
  x = x < -106.0f ? -106.0f : x;
  float k = SG_FMAF(x,0x1.715476p0f,SG_SHIFTF)-SG_SHIFTF;
  float r = SG_FMAF(-k,0x1.63p-1f,x);
  r = SG_FMAF(-k,-0x1.bd0106p-13f,r);
  float q = 0.00139261835877f; q = SG_FMAF(q,r,0.00836317905272f); q = SG_FMAF(q,r,0.0416665546172f); q = SG_FMAF(q,r,0.166665769897f); q = SG_FMAF(q,r,0.5f);
  float p = SG_FMAF(r*r,q,r)+1.0f;
  float h = (k*0.5f+SG_SHIFTF)-SG_SHIFTF;
  return p*sg_pow2f(h)*sg_pow2f(k-h);
}
SG float sg_expm1f(float x){
  x = x > 90.0f ? 90.0f : x;
  x = x < -30.0f ? -30.0f : x;
  float k = SG_FMAF(x,0x1.715476p0f,SG_SHIFTF)-SG_SHIFTF;
  float r = SG_FMAF(-k,0x1.63p-1f,x);
  r = SG_FMAF(-k,-0x1.bd0106p-13f,r);
  float q = 0.00139261835877f; q = SG_FMAF(q,r,0.00836317905272f); q = SG_FMAF(q,r,0.0416665546172f); q = SG_FMAF(q,r,0.166665769897f); q = SG_FMAF(q,r,0.5f);
  float p = SG_FMAF(r*r,q,r);
  float h = (k*0.5f+SG_SHIFTF)-SG_SHIFTF, a = sg_pow2f(h), b = sg_pow2f(k-h), s = a*b;
  float y = k > 30.0f ? (p+1.0f)*a*b : SG_FMAF(s,p,s-1.0f);
  return x == 0.0f ? x : y;
}
SG float sg_logf(float x){
  int tiny = x < 0x1p-126f;
  float y = tiny ? x*0x1p25f : x;
  uint32_t hx = sg_bitsf(y) + (0x3f800000u-0x3f3504f3u);
  float k = (float)(int32_t)((hx>>23)) - 127.0f;
  k = tiny ? k-25.0f : k;
  float f = sg_realf((hx & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float s = f/(2.0f+f), z = s*s, w = z*z;
  float r = z*SG_FMAF(w,0.28498786688f,0.66666662693f) + w*SG_FMAF(w,0.24279078841f,0.40000972152f);
  float hf = 0.5f*f*f;
  float v = s*(hf+r) + k*9.0580006145e-06f - hf + f + k*6.9313812256e-01f;
  v = x == INFINITY ? x : v;
  v = x == 0.0f ? -INFINITY : v;
  return x >= 0.0f ? v : NAN;
}
SG float sg_tanhf(float x){
  float a = fabsf(x);
  float t = sg_expm1f(-2.0f*(a > 12.0f ? 12.0f : a));
  float y = -t/(t+2.0f);
  y = x != x ? x : y;
  return copysignf(y,x);
}
SG void sg_sincosf(float x,float*sn,float*cs){   /* |x| < 1e4 with FMA */
  float t = SG_FMAF(x,0x1.45f306p-1f,SG_SHIFTF), n = t-SG_SHIFTF;
  uint32_t q = sg_bitsf(t);
  float r = SG_FMAF(-n,0x1.921fb6p+0f,x);
  r = SG_FMAF(-n,-0x1.777a5cp-25f,r);
  r = SG_FMAF(-n,-0x1.ee59dap-50f,r);
  float z = r*r;
  float p = SG_FMAF(z,SG_FMAF(z,2.7183114939898219064e-6f,-0.000198393348360966317347f),0.0083333293858894631756f);
  float s = SG_FMAF(z*r,SG_FMAF(z,p,-0.166666666416265235595f),r);
  float c = SG_FMAF(z,SG_FMAF(z,SG_FMAF(z,SG_FMAF(z,0.0000243904487962774090654f,-0.00138867637746099294692f),0.0416666233237390631894f),-0.499999997251031003120f),1.0f);
  float ss = q&1 ? c : s, cc = q&1 ? s : c;
  *sn = sg_realf(sg_bitsf(ss) ^ ((q&2)<<30));
  *cs = sg_realf(sg_bitsf(cc) ^ (((q+1)&2)<<30));
}
#if defined(__FMA__) || defined(__aarch64__)
#define SG_TRIG_MAXF 1e4f
#else
#define SG_TRIG_MAXF 0.0f
#endif
SG float sg_sinf(float x){ float s,c; if(!SG_NEAR(x,SG_TRIG_MAXF)) return sinf(x); sg_sincosf(x,&s,&c); return x == 0.0f ? x : s; }
SG float sg_cosf(float x){ float s,c; if(!SG_NEAR(x,SG_TRIG_MAXF)) return cosf(x); sg_sincosf(x,&s,&c); return c; }
SG double sg_logaddexp(double x, double y)
{
    double larger = x >= y || x != x ? x : y;
    return x == y ? x + 0.69314718055994530942 : larger + sg_log1p(sg_exp(-fabs(x - y)));
}

SG float sg_logaddexpf(float x, float y)
{
    float larger = x >= y || x != x ? x : y;
    return x == y ? x + 0.6931471805599453f : larger + log1pf(sg_expf(-fabsf(x - y)));
}
