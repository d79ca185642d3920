package agenthost

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// RevocationLists is a file of a Pod with revocation lists.
type RevocationLists struct {
	Volume string `json:"volume"`
	Signer string `json:"signer"`
	Path   string `json:"path"`
	// Numbers are the numbers of the lists in the file; none if there is no file.
	Numbers []string `json:"numbers,omitempty"`
	// ThisUpdate is when the oldest of the lists begins, NextUpdate when the first one ends.
	ThisUpdate time.Time `json:"thisUpdate,omitzero"`
	NextUpdate time.Time `json:"nextUpdate,omitzero"`
	// Error is the reason why the file, or a newer one, is missing.
	Error string `json:"error,omitempty"`
}

// String returns the line of the file.
func (l RevocationLists) String() string {
	state := "missing"
	if len(l.Numbers) > 0 {
		state = fmt.Sprintf("numbers %s from %s until %s", strings.Join(l.Numbers, ","), l.ThisUpdate.UTC().Format(time.RFC3339), l.NextUpdate.UTC().Format(time.RFC3339))
	}
	return withError(fmt.Sprintf("%s %s %s %s", l.Volume, l.Signer, l.Path, state), l.Error)
}

// ListsConditionOf returns the condition of files with revocation lists, without its times.
func ListsConditionOf(all []RevocationLists) corev1.PodCondition {
	condition := corev1.PodCondition{Type: ListsCondition, Status: corev1.ConditionTrue, Reason: reasonFresh}
	var lines []string
	for _, l := range all {
		if l.Error != "" || len(l.Numbers) == 0 {
			condition.Status, condition.Reason = corev1.ConditionFalse, reasonFailed
		}
		lines = append(lines, l.String())
	}
	condition.Message = strings.Join(lines, "\n")
	return condition
}

// RevocationListsOf returns the files that a Pod's status describes. It skips lines of another
// form.
func RevocationListsOf(status corev1.PodStatus) []RevocationLists {
	var all []RevocationLists
	for _, condition := range status.Conditions {
		if condition.Type != ListsCondition {
			continue
		}
		for line := range strings.Lines(condition.Message) {
			if l, ok := parseLists(line); ok {
				all = append(all, l)
			}
		}
	}
	return all
}

func parseLists(line string) (RevocationLists, bool) {
	state, failure, _ := strings.Cut(strings.TrimSpace(line), ": ")
	words := strings.Fields(state)
	if len(words) < 4 {
		return RevocationLists{}, false
	}
	l := RevocationLists{Volume: words[0], Signer: words[1], Path: words[2], Error: failure}
	if len(words) != 9 {
		return l, len(words) == 4 && words[3] == "missing"
	}
	var errFrom, errUntil error
	l.Numbers = strings.Split(words[4], ",")
	l.ThisUpdate, errFrom = time.Parse(time.RFC3339, words[6])
	l.NextUpdate, errUntil = time.Parse(time.RFC3339, words[8])
	return l, errFrom == nil && errUntil == nil
}
