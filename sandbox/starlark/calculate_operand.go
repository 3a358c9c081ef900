package starlark

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// operand is a Python value: an integer, a float, an empty tuple, or the failure
// of the operation that would have made it.
type operand struct {
	integer *big.Int
	float   float64
	tuple   bool
	failed  error
}

func failed(text string) operand { return operand{failed: errors.New(text)} }

func (o operand) kind() string {
	switch {
	case o.tuple:
		return "tuple"
	case o.integer != nil:
		return "int"
	default:
		return "float"
	}
}

// number is Python's float(o).
func (o operand) number() (float64, error) {
	switch {
	case o.tuple:
		return 0, errors.New("float() argument must be a string or a real number, not 'tuple'")
	case o.integer == nil:
		return o.float, nil
	}
	f, _ := new(big.Float).SetInt(o.integer).Float64()
	if math.IsInf(f, 0) {
		return 0, errors.New("int too large to convert to float")
	}
	return f, nil
}

func unary(op string, v operand) operand {
	switch {
	case v.failed != nil || op == "+" && !v.tuple:
		return v
	case v.tuple:
		return failed("bad operand type for unary " + op + ": 'tuple'")
	case v.integer != nil:
		return operand{integer: new(big.Int).Neg(v.integer)}
	default:
		return operand{float: -v.float}
	}
}

func binary(op string, v, w operand) operand {
	switch {
	case v.failed != nil:
		return v
	case w.failed != nil:
		return w
	case v.tuple || w.tuple:
		return tupleOperation(op, v, w)
	case v.integer != nil && w.integer != nil:
		return integerOperation(op, v.integer, w.integer)
	}
	x, err := v.number()
	if err != nil {
		return operand{failed: err}
	}
	y, err := w.number()
	if err != nil {
		return operand{failed: err}
	}
	return floatOperation(op, x, y)
}

func tupleOperation(op string, v, w operand) operand {
	switch {
	case op == "+" && v.tuple && w.tuple, op == "*" && v.kind() != w.kind() && (v.integer != nil || w.integer != nil):
		return operand{tuple: true}
	case op == "+" && v.tuple:
		return failed(fmt.Sprintf(`can only concatenate tuple (not "%s") to tuple`, w.kind()))
	case op == "*":
		other := w.kind()
		if v.kind() == "float" {
			other = "float"
		}
		return failed(fmt.Sprintf("can't multiply sequence by non-int of type '%s'", other))
	case op == "**":
		op = "** or pow()"
	}
	return failed(fmt.Sprintf("unsupported operand type(s) for %s: '%s' and '%s'", op, v.kind(), w.kind()))
}

func integerOperation(op string, x, y *big.Int) operand {
	if x.BitLen()+y.BitLen() > maxIntegerBits {
		return failed("int too large to convert to float")
	}
	z := new(big.Int)
	switch op {
	case "+":
		return operand{integer: z.Add(x, y)}
	case "-":
		return operand{integer: z.Sub(x, y)}
	case "*":
		return operand{integer: z.Mul(x, y)}
	case "**":
		return integerPower(x, y)
	}
	if y.Sign() == 0 {
		if op == "//" {
			return failed("integer division or modulo by zero")
		}
		return failed("division by zero")
	}
	if op == "//" {
		rest := new(big.Int)
		if z.QuoRem(x, y, rest); rest.Sign() != 0 && rest.Sign() != y.Sign() {
			z.Sub(z, big.NewInt(1))
		}
		return operand{integer: z}
	}
	f, _ := new(big.Rat).SetFrac(x, y).Float64()
	if math.IsInf(f, 0) {
		return failed("integer division result too large for a float")
	}
	return operand{float: f}
}

func integerPower(x, y *big.Int) operand {
	switch {
	case y.Sign() < 0 && x.Sign() == 0:
		return failed("0.0 cannot be raised to a negative power")
	case y.Sign() < 0:
		fx, _ := new(big.Float).SetInt(x).Float64()
		fy, _ := new(big.Float).SetInt(y).Float64()
		return floatOperation("**", fx, fy)
	case x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxIntegerBits || int64(x.BitLen())*y.Int64() > maxIntegerBits):
		return failed("int too large to convert to float")
	case x.BitLen() <= 1 && y.Sign() > 0: // 0, 1 and -1 need no multiplication
		if x.Sign() < 0 && y.Bit(0) == 0 {
			return operand{integer: big.NewInt(1)}
		}
		return operand{integer: x}
	}
	return operand{integer: new(big.Int).Exp(x, y, nil)}
}

func floatOperation(op string, x, y float64) operand {
	switch op {
	case "+":
		return operand{float: x + y}
	case "-":
		return operand{float: x - y}
	case "*":
		return operand{float: x * y}
	case "/":
		if y == 0 {
			return failed("float division by zero")
		}
		return operand{float: x / y}
	case "//":
		if y == 0 {
			return failed("float floor division by zero")
		}
		return operand{float: floorDivide(x, y)}
	}
	z := math.Pow(x, y)
	switch {
	case x == 0 && y < 0:
		return failed("0.0 cannot be raised to a negative power")
	case x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0):
		return failed("float() argument must be a string or a real number, not 'complex'")
	case math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		return failed("(34, 'Numerical result out of range')")
	}
	return operand{float: z}
}

// floorDivide is Python's x // y: computed from the exact remainder.
func floorDivide(x, y float64) float64 {
	rest := math.Mod(x, y)
	quotient := (x - rest) / y
	if rest != 0 && (rest < 0) != (y < 0) {
		quotient--
	}
	if quotient == 0 {
		return math.Copysign(0, x/y)
	}
	floor := math.Floor(quotient)
	if quotient-floor > 0.5 {
		floor++
	}
	return floor
}
