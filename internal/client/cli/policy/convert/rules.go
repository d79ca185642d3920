package convert

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// rule adds a rule with a name that is unique in the policy.
func (c *converter) rule(v values, r v1alpha1.PolicyRule) {
	name := strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(v.path, func(s string) string { return "-" + s }))
	name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(name, "-"), "-")
	if len(name) > 50 {
		name = strings.Trim(name[:50], "-")
	}
	r.Name = fmt.Sprintf("%s-%d", name, len(c.spec.Rules))
	c.spec.Rules = append(c.spec.Rules, r)
}

// rules converts validations. A validation that cannot be converted becomes a rule that
// permits nothing, so that the policy never permits more.
func (c *converter) rules(v values) {
	for i, validation := range v.rules {
		expression, err := expressionOf(validation.Rule)
		if err != nil {
			c.lose("spec.allowed.%s.validations[%d]: %q: %v; the rule below permits nothing", v.path, i, validation.Rule, err)
			expression = "size(self) < 0"
		}
		message := "failed rule: " + validation.Rule
		if validation.Message != nil {
			message = *validation.Message
		}
		c.rule(v, v1alpha1.PolicyRule{Expression: v1alpha1.CEL(v.list + ".all(self, " + expression + ")"), Message: oneLine(message), Field: fieldOf(v.path)})
	}
}

// fieldOf returns a path as the field of a rule.
func fieldOf(path string) string {
	name, _, _ := strings.Cut(path, "[")
	return name
}

// oneLine returns a message in the form that a policy permits.
func oneLine(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > 1000 {
		message = message[:1000]
	}
	return message
}

// variables maps the variables and functions of approver-policy to certplane's.
var variables = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\bisServiceAccount\(\s*cr\.username\s*\)`), "has(requester.serviceAccount)"},
	{regexp.MustCompile(`\bserviceAccount\(\s*cr\.username\s*\)\.getName\(\s*\)`), "requester.serviceAccount.name"},
	{regexp.MustCompile(`\bserviceAccount\(\s*cr\.username\s*\)\.getNamespace\(\s*\)`), "requester.serviceAccount.namespace"},
	{regexp.MustCompile(`\bcr\.(name|namespace)\b`), "request.$1"},
	{regexp.MustCompile(`\bcr\.(username|groups)\b`), "requester.$1"},
}

var (
	literals = regexp.MustCompile(`(?s)[rRbB]*("""|''').*?("""|''')|[rRbB]*"(?:\\.|[^"\\])*"|[rRbB]*'(?:\\.|[^'\\])*'`)
	// leftOver finds unconverted parts, and comments.
	leftOver = regexp.MustCompile(`\b(cr|serviceAccount|isServiceAccount)\b\s*[.(]|//`)
)

// expressionOf converts an expression. String literals in it stay unchanged.
func expressionOf(rule string) (string, error) {
	if strings.TrimSpace(rule) == "" {
		return "", errors.New("it is empty")
	}
	var converted strings.Builder
	var outside []string
	last := 0
	for _, at := range append(literals.FindAllStringIndex(rule, -1), []int{len(rule), len(rule)}) {
		code := rule[last:at[0]]
		for _, v := range variables {
			code = v.pattern.ReplaceAllString(code, v.with)
		}
		outside = append(outside, strings.ReplaceAll(code, "requester.serviceAccount", ""))
		converted.WriteString(code + rule[at[0]:at[1]])
		last = at[1]
	}
	if left := leftOver.FindString(strings.Join(outside, "''")); left != "" {
		return "", fmt.Errorf("%q cannot be converted", strings.TrimSpace(left))
	}
	return converted.String(), nil
}

// constraints converts limits of durations and keys.
func (c *converter) constraints(limits *approverpolicy.Constraints) {
	if limits == nil {
		return
	}
	if limits.MinDuration != nil || limits.MaxDuration != nil {
		c.spec.Certificate.Lifetime = &v1alpha1.LifetimeConditions{Min: limits.MinDuration, Max: limits.MaxDuration}
		c.rule(values{path: "duration"}, v1alpha1.PolicyRule{
			Expression: "has(request.expirationSeconds)", Message: "the request must name a duration", Field: "duration",
		})
	}
	if limits.PrivateKey != nil {
		c.keys(limits.PrivateKey)
	}
}

// curves are the sizes of ECDSA keys.
var curves = []struct {
	bits int
	key  v1alpha1.KeyType
}{{256, "ECDSAP256"}, {384, "ECDSAP384"}, {521, "ECDSAP521"}}

// keys converts limits of keys: the size of an Ed25519 key is -1 to
// approver-policy.
func (c *converter) keys(limits *approverpolicy.PrivateKeyConstraints) {
	is := func(a cmv1.PrivateKeyAlgorithm) bool { return limits.Algorithm == nil || *limits.Algorithm == a }
	within := func(bits int) bool {
		return (limits.MinSize == nil || bits >= *limits.MinSize) && (limits.MaxSize == nil || bits <= *limits.MaxSize)
	}
	keys := &v1alpha1.KeyConditions{}
	if is(cmv1.ECDSAKeyAlgorithm) {
		for _, curve := range curves {
			if within(curve.bits) {
				keys.Types = append(keys.Types, curve.key)
			}
		}
		if within(224) {
			c.lose("spec.constraints.privateKey: certplane never permits ECDSA keys of 224 bits")
		}
	}
	if is(cmv1.Ed25519KeyAlgorithm) && within(-1) {
		keys.Types = append(keys.Types, "ED25519")
	}
	if is(cmv1.RSAKeyAlgorithm) {
		keys.RSA = &v1alpha1.RSAConditions{MinBits: size(limits.MinSize), MaxBits: size(limits.MaxSize)}
	}
	c.spec.Certificate.Keys = keys
}

func size(bits *int) *int32 {
	if bits == nil {
		return nil
	}
	return new(int32(*bits))
}
