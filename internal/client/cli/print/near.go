package print

import "strings"

// Near returns the candidate that the user probably meant by a word: one that differs by
// at most two letters, or that has the same part after the last slash; empty if none
// does.
func Near(word string, candidates []string) string {
	best, least := "", 3
	for _, candidate := range candidates {
		if d := distance(word, candidate); d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range candidates {
		if last(candidate) == last(word) && last(word) != "" {
			return candidate
		}
	}
	return ""
}

func last(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// distance returns how many letters have to be inserted, removed or replaced to make one
// word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
