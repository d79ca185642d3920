// Package crp evaluates CertificateRequestPolicies of approver-policy as
// approver-policy v0.28 does, with its results and its texts.
//
// A policy is compiled once. A decision depends only on the policies, the
// CertificateRequest and Facts: it uses no clock, no API and no randomness.
//
// Peculiarities of approver-policy that are kept, because users have policies
// that rely on them and clients read the texts:
//
//   - The size of an Ed25519 key is -1, so that minSize alone refuses it.
//     Curves are told apart by their size only.
//   - Usages are patterns, like names. The definition of the kind permits only
//     the known usages, so this is seen in files only.
//   - A * matches dots, slashes and a literal *: "*.example.com" permits the
//     wildcard certificate. Bytes that are not UTF-8 match each other.
//   - A common name that is the empty text counts as absent.
//   - What follows the first value inside an otherName is not looked at.
//   - The request is not looked at for key usages, basic constraints and other
//     extensions in the PKCS#10 request: issuers read spec.usages and spec.isCA.
//   - A stored policy that would be refused at write is evaluated: an expression
//     that does not compile is a violation, an unknown algorithm matches no key.
//     Labels that are not valid are an error for each request that the policy's
//     other selectors match.
//
// It differs from approver-policy in these points:
//
//   - Policies are evaluated in the order of their names, not in the order of a
//     cache: of several that approve, the same is named each time.
//   - A policy with plugins is never evaluated, whatever its status says: a
//     version of approver-policy with plugins may have set it.
//   - Alternative names that neither Go nor cert-manager reads are refused:
//     names that are encoded in parts, and names of a class other than
//     context-specific. Other programs read names in parts.
//   - Errors of decoding alternative names end before the details of Go's
//     parser, which contain addresses in memory.
//   - The Event about a request that no policy applies to names the nearest
//     policy.
package crp

import (
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// Policy is a compiled policy. It never changes, and is safe for concurrent
// use.
type Policy struct {
	name       string
	generation int64
	selector   selector
	allowed    allowed
	// constraints are nil if there are none.
	constraints *approverpolicy.Constraints
	// plugins has an error for each plugin.
	plugins pluginErrors
	state   state
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.name }
