package dns

import (
	"fmt"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
)

// view selects the servers that a self check asks.
type view int

const (
	authoritative view = iota
	recursive
)

// maxDetail is the maximum length of the text about servers.
const maxDetail = 900

// judgement is the combined result of the servers of a name.
type judgement struct {
	// propagated is set if a CA would find the record: all servers that answer for the
	// name have it, and these are at least half of all. One of two servers that is out of
	// service would otherwise keep every certificate from being issued.
	propagated bool
	has, all   int
	// lacking are the servers that do not have the record.
	lacking []string
	// unusable lists the reasons why servers do not count.
	unusable []string
}

func judge(views []resolver.View, has func(values []string) bool) judgement {
	j := judgement{all: len(views)}
	for _, v := range views {
		switch {
		case has(v.Values):
			j.has++
		case v.Err != nil:
			j.unusable = append(j.unusable, v.Err.Error())
		default:
			j.lacking = append(j.lacking, v.Server)
		}
	}
	j.propagated = j.has > 0 && len(j.lacking) == 0 && 2*j.has >= j.all
	return j
}

// String describes why the record is not found.
func (j judgement) String() string {
	var parts []string
	if len(j.lacking) > 0 {
		parts = append(parts, "missing at "+strings.Join(j.lacking, ", "))
	}
	if len(j.lacking) == 0 && !j.propagated {
		parts = append(parts, fmt.Sprintf("%d of %d servers have it", j.has, j.all))
	}
	text := strings.Join(append(parts, j.unusable...), "; ")
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "..."
	}
	return text
}

// note lists the servers that did not count in a success.
func (j judgement) note() string {
	if len(j.unusable) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers have the record; %s", j.has, j.all, judgement{unusable: j.unusable, propagated: true})
}
