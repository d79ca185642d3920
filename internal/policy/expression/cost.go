package expression

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"
)

// estimates estimates the cost of expressions before there is a request.
var estimates = &library.CostEstimator{SizeEstimator: sizes{}}

// estimate returns what an expression costs at least and at most, in the same
// units as the limits.
func (env *Environment) estimate(ast *cel.Ast) (least, most uint64) {
	cost, err := env.env.EstimateCost(ast, estimates)
	if err != nil {
		return 0, 0
	}
	return cost.Min, cost.Max
}

// sizes are those of large requests: the largest number of names, and texts that
// are as long as names can be.
type sizes struct{}

const (
	manyNames  = 1000
	manyValues = 64
	longName   = 253
	longText   = 1024
)

// EstimateSize implements checker.CostEstimator. It returns the sizes of variables only:
// those of computed values follow from them.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	most := uint64(longName)
	switch field := path[len(path)-1]; {
	case node.Type().Kind() == types.ListKind && slices.Contains(namesFields, field):
		most = manyNames
	case node.Type().Kind() == types.ListKind, node.Type().Kind() == types.MapKind:
		most = manyValues
	case slices.Contains(longFields, field):
		most = longText
	}
	return &checker.SizeEstimate{Min: 0, Max: most}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

var (
	namesFields = []string{"dnsNames", "ipAddresses", "uris", "emailAddresses", "otherNames", "identifiers"}
	longFields  = []string{"text", "@values", "value"}
)

// quickFunctions take no longer than comparing two texts.
var quickFunctions = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.Equals, operators.NotEquals,
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, overloads.StartsWith, overloads.EndsWith,
}

// scalars are the kinds of values that are compared as a whole.
var scalars = []types.Kind{types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind}

// isQuick reports whether an expression takes so little time, whatever a request contains,
// that counting its cost would take longer: it contains no loops, creates no values, and
// compares only strings and numbers.
func isQuick(ast *cel.Ast) bool {
	checked := ast.NativeRep()
	slow := celast.MatchDescendants(celast.NavigateAST(checked), func(e celast.NavigableExpr) bool {
		switch e.Kind() {
		case celast.IdentKind, celast.LiteralKind, celast.SelectKind:
			return false
		case celast.CallKind:
			return !slices.Contains(quickFunctions, e.AsCall().FunctionName()) || slices.ContainsFunc(e.AsCall().Args(), func(arg celast.Expr) bool {
				return !slices.Contains(scalars, checked.GetType(arg.ID()).Kind())
			})
		default:
			return true
		}
	})
	return len(slow) == 0
}
