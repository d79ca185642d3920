package status

// conditions are those of the Certificate.
func (f *facts) conditions() []Condition {
	all := []Condition{}
	for _, c := range f.certificate.Status.Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, instant(c.LastTransitionTime)})
	}
	return all
}

// issuerConditions are none where nothing is known of the issuer.
func (f *facts) issuerConditions() []Condition {
	if f.issuer == nil {
		return nil
	}
	var all []Condition
	for _, c := range f.issuer.GetStatus().Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, instant(c.LastTransitionTime)})
	}
	return all
}

// requestConditions are those of the request, which must be known.
func (f *facts) requestConditions() []Condition {
	var all []Condition
	for _, c := range f.request.Status.Conditions {
		all = append(all, Condition{string(c.Type), string(c.Status), c.Reason, c.Message, instant(c.LastTransitionTime)})
	}
	return all
}

// conditionRows shows conditions to people.
func (f *facts) conditionRows(conditions []Condition) [][]string {
	var rows [][]string
	for _, c := range conditions {
		age := ""
		if c.LastTransitionTime != nil {
			age = f.ago(*c.LastTransitionTime)
		}
		rows = append(rows, []string{c.Type, c.Status, age, c.Reason, c.Message})
	}
	return rows
}
