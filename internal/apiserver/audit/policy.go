package audit

import (
	_ "embed"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
)

// builtin is the policy of a server that has none configured.
//
//go:embed policy.yaml
var builtin []byte

func (c Config) policy() (*auditinternal.Policy, error) {
	if c.PolicyFile == "" {
		return parsePolicy(builtin)
	}
	data, err := os.ReadFile(c.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("reading audit.policyFile: %w", err)
	}
	parsed, err := parsePolicy(data)
	if err != nil {
		return nil, fmt.Errorf("reading audit.policyFile %s: %w", c.PolicyFile, err)
	}
	return parsed, nil
}

// parsePolicy refuses unknown fields, which the library would only log: with a
// mistyped condition, a rule applies to everything.
func parsePolicy(data []byte) (*auditinternal.Policy, error) {
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, _, err := strict.Decode(data, nil, &auditinternal.Policy{}); err != nil {
		return nil, err
	}
	return policy.LoadPolicyFromBytes(data)
}
