// Package hostile attacks a server, a process of its own, as four sorts of
// people: somebody without credentials, a user without rights, a node and an
// editor of a namespace. While each attack goes on, everybody else must be
// served: probes, users, nodes, tokens that bootstrap nodes, approval and
// signing.
//
// To add an attack, add a row to the table attacks in attacks_test.go: its name,
// who makes it, and a function that goes on until its context ends. It calls
// armed when the attack is as strong as it gets; from then on observers act, and
// each of their actions must succeed. What the attacker is answered, it counts
// in the tally, which is printed.
//
// "make test" makes the attacks; "make hostile" floods as well.
package hostile
