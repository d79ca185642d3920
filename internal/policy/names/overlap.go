package names

// Overlaps reports whether a name can match both patterns. It may also be true of
// patterns that no name matches both of, as each * counts as any run of characters.
func (g Glob) Overlaps(other Glob) bool {
	if g.all || other.all {
		return true
	}
	if len(g.segments) != len(other.segments) {
		return false // a star does not cross a slash
	}
	for i := range g.segments {
		if !overlap(g.segments[i].symbols(), other.segments[i].symbols()) {
			return false
		}
	}
	return true
}

// symbol is a character of a pattern, or a star.
type symbol struct {
	char rune
	star bool
}

func (p pattern) symbols() []symbol {
	var all []symbol
	for _, one := range p {
		if one.star {
			all = append(all, symbol{star: true})
		}
		for _, char := range one.literal {
			all = append(all, symbol{char: char})
		}
	}
	return all
}

// overlap reports whether a text can match both a and b. It fills a table of the
// overlapping suffixes, starting at the ends.
func overlap(a, b []symbol) bool {
	below := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		row := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i].star:
				row[j] = below[j] || j < len(b) && row[j+1]
			case j < len(b) && b[j].star:
				row[j] = row[j+1] || i < len(a) && below[j]
			case i < len(a) && j < len(b):
				row[j] = a[i].char == b[j].char && below[j+1]
			}
		}
		below = row
	}
	return below[0]
}
