/* SPDX-License-Identifier: Apache-2.0 */
/* What the vector kernels share: included once by qbinary_<isa>.c, which defines before

     vf                                     float32 vector
     v_add v_sub v_mul v_div v_max v_min    each rounds as its scalar form does
     KERNEL                                 the kernel's name

   and behind it `run`: all rows of a block for one operation, which is a constant there. */

INTACT_INLINE void run(intact_qbinary_op op, bool divide, const intact_qbinary_params *p, const intact_qbinary_block *block);

INTACT_INLINE vf apply(intact_qbinary_op op, vf a, vf b) {
  switch (op) {
    case INTACT_QBINARY_ADD:
      return v_add(a, b);
    case INTACT_QBINARY_SUB:
      return v_sub(a, b);
    case INTACT_QBINARY_MUL:
      return v_mul(a, b);
    case INTACT_QBINARY_MAX:
      return v_max(a, b);
    default:
      return v_min(a, b);
  }
}

/* y: the scale to divide by, or its inverse. */
INTACT_INLINE vf steps(vf v, vf y, bool divide) { return divide ? v_div(v, y) : v_mul(v, y); }

INTACT_INLINE void run_op(bool divide, const intact_qbinary_params *params, const intact_qbinary_block *block) {
  switch (params->op) {
    case INTACT_QBINARY_ADD:
      run(INTACT_QBINARY_ADD, divide, params, block);
      break;
    case INTACT_QBINARY_SUB:
      run(INTACT_QBINARY_SUB, divide, params, block);
      break;
    case INTACT_QBINARY_MUL:
      run(INTACT_QBINARY_MUL, divide, params, block);
      break;
    case INTACT_QBINARY_MAX:
      run(INTACT_QBINARY_MAX, divide, params, block);
      break;
    case INTACT_QBINARY_MIN:
      run(INTACT_QBINARY_MIN, divide, params, block);
      break;
  }
}

void KERNEL(const intact_qbinary_params *params, const intact_qbinary_block *block) {
  if (params->divide)
    run_op(true, params, block);
  else
    run_op(false, params, block);
}
