package admission

import "context"

// prepare gets the programs of the policies that match, before the chain begins: what is
// compiled for that takes nothing of a policy's time or the chain's, and no place among
// those who evaluate. What is wrong with a code is said when its turn comes.
func (c *chain) prepare(ctx context.Context) error {
	for _, p := range c.policies {
		if p.code.programs == nil {
			continue
		}
		made, err := p.ready(ctx, nil)
		if err != nil && p.code.broken() == nil {
			return err
		}
		c.held = append(c.held, made)
	}
	return nil
}

// program is that of a policy whose turn it is. It is missing when a patch made the
// policy match: the chain then waits without its place, as in the slow lane.
func (c *chain) program(ctx context.Context, w *watch, p *Compiled) (*program, error) {
	if made := p.code.now(); made != nil {
		return made, nil
	}
	if p.code.broken() == nil {
		w.place.leave()
	}
	made, err := p.ready(ctx, w.ended)
	if err != nil && w.stopped() != nil {
		return nil, p.failed(CodeTimeout, "", "%v", w.stopped())
	}
	c.held = append(c.held, made)
	return made, err
}
