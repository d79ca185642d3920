package inspect

// Report is the content of the Secret of a Certificate, for JSON and YAML. Later versions
// may add fields; existing fields stay and keep their meaning.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Good reports whether no check is bad; Verdict is the result as a sentence.
	Good    bool   `json:"good"`
	Verdict string `json:"verdict"`
	// Checks are the checks of the Secret.
	Checks []Check `json:"checks"`
	// Chain is tls.crt, the certificate first; CA is ca.crt.
	Chain []Certificate `json:"chain"`
	CA    []Certificate `json:"ca,omitempty"`
}

// Report returns the report about the Secret with this name.
func (c *Contents) Report(namespace, name string) Report {
	_, bad := c.bad()
	return Report{
		Namespace: namespace, Name: name, Good: !bad, Verdict: c.verdict(),
		Checks: c.Checks, Chain: describeAll(c.Chain), CA: describeAll(c.CA),
	}
}
