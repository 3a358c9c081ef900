package starlark

import (
	"fmt"

	"go.starlark.net/syntax"
)

// guard rewrites a parsed file before it is compiled, so that no single step of
// it can allocate or compute without bound, and so that == sees through live
// handles. Operators become calls of hidden functions ($add, $eq, ...), whose
// names no file can contain; guarded versions of Starlark's own functions are
// predeclared beside them (guarded.go). What remains unbounded is counted in
// steps, and every step is short, so that limits and cancellation hold.
//
//	x + y        $add(x, y)         x += y     x = $iadd(x, y)
//	x == y       $eq(x, y)          x[k]       x[$key(k)]
//	x[a:b]       $slice(x, a, b)    x.join(y)  $method(x, "join", y)
//
// An operation on a literal that cannot grow is left alone: most tests and sums
// of a domain cost what they did.
func guard(file *syntax.File) (err error) {
	g := guardian{}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(syntax.Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	g.stmts(file.Stmts)
	return nil
}

// guardian walks a file; it panics with a syntax.Error, which guard returns.
type guardian struct{}

func (g guardian) refuse(pos syntax.Position, format string, args ...any) {
	panic(syntax.Error{Pos: pos, Msg: fmt.Sprintf(format, args...)})
}

func (g guardian) stmts(list []syntax.Stmt) {
	for _, s := range list {
		g.stmt(s)
	}
}

func (g guardian) stmt(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		g.assign(s)
	case *syntax.DefStmt:
		g.params(s.Params)
		g.stmts(s.Body)
	case *syntax.ExprStmt:
		s.X = g.expr(s.X)
	case *syntax.ForStmt:
		g.target(s.Vars)
		s.X = g.expr(s.X)
		g.stmts(s.Body)
	case *syntax.IfStmt:
		s.Cond = g.expr(s.Cond)
		g.stmts(s.True)
		g.stmts(s.False)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = g.expr(s.Result)
		}
	case *syntax.LoadStmt:
		g.refuse(s.Load, "load is not offered")
	case *syntax.WhileStmt:
		g.refuse(s.While, "while is not offered")
	case *syntax.BranchStmt:
	}
}

// assign guards an assignment. An augmented one is spelled out, so that its
// operator is guarded like any other; its target is read twice, which is only
// allowed where reading has no effect.
func (g guardian) assign(s *syntax.AssignStmt) {
	if s.Op != syntax.EQ {
		old, ok := duplicate(s.LHS)
		if !ok {
			g.refuse(s.OpPos, "%s on a target with a call in it: give the target a name first", s.Op)
		}
		op := s.Op - syntax.PLUS_EQ + syntax.PLUS
		if op == syntax.PLUS && !isNumber(s.RHS) {
			s.RHS = hidden("$iadd", s.OpPos, g.expr(old), g.expr(s.RHS))
		} else {
			s.RHS = g.expr(&syntax.BinaryExpr{X: old, OpPos: s.OpPos, Op: op, Y: s.RHS})
		}
		s.Op = syntax.EQ
	} else {
		s.RHS = g.expr(s.RHS)
	}
	g.target(s.LHS)
}

// target guards what is assigned to, in place.
func (g guardian) target(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.Ident:
	case *syntax.IndexExpr:
		e.X = g.expr(e.X)
		e.Y = g.key(e.Y)
	case *syntax.ParenExpr:
		g.target(e.X)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			g.target(x)
		}
	case *syntax.ListExpr:
		for _, x := range e.List {
			g.target(x)
		}
	default:
		start, _ := e.Span()
		g.refuse(start, "this cannot be assigned to")
	}
}

// duplicate copies an expression that reads without effect: names, literals and
// indices of them.
func duplicate(e syntax.Expr) (syntax.Expr, bool) {
	switch e := e.(type) {
	case *syntax.Ident:
		return &syntax.Ident{NamePos: e.NamePos, Name: e.Name}, true
	case *syntax.Literal:
		c := *e
		return &c, true
	case *syntax.ParenExpr:
		return duplicate(e.X)
	case *syntax.IndexExpr:
		x, ok1 := duplicate(e.X)
		y, ok2 := duplicate(e.Y)
		return &syntax.IndexExpr{X: x, Lbrack: e.Lbrack, Y: y, Rbrack: e.Rbrack}, ok1 && ok2
	}
	return nil, false
}

// params guards default values.
func (g guardian) params(params []syntax.Expr) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			b.Y = g.expr(b.Y)
		}
	}
}

func (g guardian) exprs(list []syntax.Expr) {
	for i, e := range list {
		list[i] = g.expr(e)
	}
}

func (g guardian) optional(e syntax.Expr, pos syntax.Position) syntax.Expr {
	if e == nil {
		return &syntax.Ident{NamePos: pos, Name: "None"}
	}
	return g.expr(e)
}

// expr returns the guarded form of e.
func (g guardian) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return g.binary(e)
	case *syntax.CallExpr:
		return g.call(e)
	case *syntax.Comprehension:
		return g.comprehension(e)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = g.expr(e.Cond), g.expr(e.True), g.expr(e.False)
	case *syntax.DictExpr:
		for _, entry := range e.List {
			g.entry(entry)
		}
		return hidden("$dict", e.Lbrace, e)
	case *syntax.DotExpr:
		g.refuse(e.Dot, "a method can only be called: x.%s(...)", e.Name.Name)
	case *syntax.IndexExpr:
		e.X, e.Y = g.expr(e.X), g.key(e.Y)
	case *syntax.LambdaExpr:
		g.params(e.Params)
		e.Body = g.expr(e.Body)
	case *syntax.ListExpr:
		g.exprs(e.List)
	case *syntax.TupleExpr:
		g.exprs(e.List)
	case *syntax.ParenExpr:
		e.X = g.expr(e.X)
	case *syntax.SliceExpr:
		x := g.expr(e.X)
		return hidden("$slice", e.Lbrack, x, g.optional(e.Lo, e.Lbrack), g.optional(e.Hi, e.Lbrack), g.optional(e.Step, e.Lbrack))
	case *syntax.UnaryExpr:
		if e.X != nil {
			e.X = g.expr(e.X)
		}
	}
	return e
}

// operators are the guarded binary operators.
func operators() map[syntax.Token]string {
	return map[syntax.Token]string{
		syntax.PLUS: "$add", syntax.STAR: "$mul", syntax.PERCENT: "$mod", syntax.LTLT: "$shl", syntax.PIPE: "$or",
		syntax.EQL: "$eq", syntax.NEQ: "$ne", syntax.IN: "$in", syntax.NOT_IN: "$not_in",
		syntax.LT: "$lt", syntax.LE: "$le", syntax.GT: "$gt", syntax.GE: "$ge",
	}
}

func (g guardian) binary(e *syntax.BinaryExpr) syntax.Expr {
	harmless := false
	if e.Op == syntax.PLUS {
		harmless = isNumber(e.X) || isNumber(e.Y)
	} else if orders(e.Op) {
		harmless = isScalar(e.X) || isScalar(e.Y)
	}
	e.X, e.Y = g.expr(e.X), g.expr(e.Y)
	name := operators()[e.Op]
	if harmless || name == "" {
		return e
	}
	return hidden(name, e.OpPos, e.X, e.Y)
}

// orders reports whether op compares two values.
func orders(op syntax.Token) bool {
	return op == syntax.EQL || op == syntax.NEQ || op == syntax.LT || op == syntax.LE || op == syntax.GT || op == syntax.GE
}

func isNumber(e syntax.Expr) bool {
	l, ok := e.(*syntax.Literal)
	return ok && (l.Token == syntax.INT || l.Token == syntax.FLOAT)
}

func isScalar(e syntax.Expr) bool {
	if id, ok := e.(*syntax.Ident); ok {
		return id.Name == "None" || id.Name == "True" || id.Name == "False"
	}
	_, ok := e.(*syntax.Literal)
	return ok
}

// key guards an expression that is hashed: a tuple that shares its parts can cost
// exponential time.
func (g guardian) key(e syntax.Expr) syntax.Expr {
	if isScalar(e) {
		return e
	}
	start, _ := e.Span()
	return hidden("$key", start, g.expr(e))
}

func (g guardian) entry(e syntax.Expr) {
	if d, ok := e.(*syntax.DictEntry); ok {
		d.Key, d.Value = g.key(d.Key), g.expr(d.Value)
	}
}

func (g guardian) comprehension(e *syntax.Comprehension) syntax.Expr {
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			g.target(c.Vars)
			c.X = g.expr(c.X)
		case *syntax.IfClause:
			c.Cond = g.expr(c.Cond)
		}
	}
	if e.Curly {
		g.entry(e.Body)
		return hidden("$dict", e.Lbrack, e)
	}
	e.Body = g.expr(e.Body)
	return e
}

// call guards arguments and, for methods whose cost is not constant, the call.
func (g guardian) call(e *syntax.CallExpr) syntax.Expr {
	for i, a := range e.Args {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				a.Y = g.expr(a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				a.X = hidden("$spread", a.OpPos, g.expr(a.X))
				continue
			}
		}
		e.Args[i] = g.expr(a)
	}
	dot, ok := e.Fn.(*syntax.DotExpr)
	if !ok {
		e.Fn = g.expr(e.Fn)
		return e
	}
	dot.X = g.expr(dot.X)
	if !costly(dot.Name.Name) {
		return e
	}
	name := &syntax.Literal{Token: syntax.STRING, TokenPos: dot.NamePos, Raw: `"` + dot.Name.Name + `"`, Value: dot.Name.Name}
	args := append([]syntax.Expr{dot.X, name}, e.Args...)
	return hidden("$method", e.Lparen, args...)
}

// costly reports whether a method's time or memory depends on what it is given.
func costly(method string) bool {
	switch method {
	case "append", "startswith", "endswith", "strip", "lstrip", "rstrip", "isdigit", "isalpha", "isalnum", "isspace",
		"islower", "isupper", "istitle", "removeprefix", "removesuffix", "find", "rfind", "count", "clear",
		"int", "float", "choice", "shuffle", "sample", "weighted":
		return false
	}
	return true
}

// hidden calls a function that only the guard can name.
func hidden(name string, pos syntax.Position, args ...syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: name}, Lparen: pos, Args: args, Rparen: pos}
}
