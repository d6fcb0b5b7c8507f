//! From the tokens of a selector to a tree, whatever its names mean.

use std::ops::Range;

use crate::Mistake;

use super::tokens::{tokens, Token};
use super::{Arithmetic, Comparison};

/// Expressions within parentheses, and operations in all, at most: each may cost a part of the stack.
const MOST_DEPTH: usize = 100;
const MOST_OPERATIONS: usize = 1_000;

/// A part of a selector.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub node: Node,
    pub at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Name(String),
    Variable(String),
    Bool(bool),
    Integer(i128),
    Real(f64),
    Text(String),
    Has(String, Range<usize>),
    Negated(Box<Expression>),
    Computed(Arithmetic, Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    OneOf(Box<Expression>, Vec<Expression>),
    Within(Box<Expression>, Box<Expression>, Box<Expression>, Option<Box<Expression>>),
    Like(Box<Expression>, String),
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

/// The tree of a selector.
pub fn parse(text: &str) -> Result<Expression, Mistake> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, end: text.len(), depth: 0, operations: 0 };
    let expression = parser.any()?;
    match parser.tokens.get(parser.at) {
        None => Ok(expression),
        Some(_) => Err(parser.expected("'and', 'or', or the end")),
    }
}

struct Parser {
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    /// Bytes of the text.
    end: usize,
    depth: usize,
    operations: usize,
}

type Parsed = Result<Expression, Mistake>;

impl Parser {
    fn any(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Mistake::new(
                self.place(),
                format!("more than {MOST_DEPTH} parentheses lie within each other"),
            ));
        }
        let found = self.joined("or", Parser::all, Node::Any);
        self.depth -= 1;
        found
    }

    fn all(&mut self) -> Parsed {
        self.joined("and", Parser::not, Node::All)
    }

    fn joined(&mut self, word: &str, part: fn(&mut Parser) -> Parsed, join: fn(Vec<Expression>) -> Node) -> Parsed {
        let mut parts = vec![part(self)?];
        while self.word(word) {
            parts.push(part(self)?);
        }
        match <[Expression; 1]>::try_from(parts) {
            Ok([only]) => Ok(only),
            Err(parts) => {
                let at = parts[0].at.start..parts[parts.len() - 1].at.end;
                Ok(Expression { node: join(parts), at })
            }
        }
    }

    fn not(&mut self) -> Parsed {
        let begin = self.place().start;
        let mut count = 0;
        while self.word("not") {
            count += 1;
        }
        let negated = self.comparison()?;
        let at = begin..negated.at.end;
        Ok(match count % 2 {
            // `not not` is checked as what it negates is.
            1 => Expression { node: Node::Not(Box::new(negated)), at },
            _ if count > 0 => Expression { node: Node::All(vec![negated]), at },
            _ => negated,
        })
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let begin = left.at.start;
        let node = if let Some(comparison) = self.next_comparison() {
            self.at += 1;
            let right = self.sum()?;
            if self.next_comparison().is_some() {
                return Err(self.expected("'and' or 'or': compare two values at a time, as in 1 <= x and x < 5"));
            }
            Node::Compare(comparison, Box::new(left), Box::new(right))
        } else if self.word("in") {
            self.set(left)?
        } else if self.word("like") {
            let Some((Token::Text(pattern), _)) = self.tokens.get(self.at) else {
                return Err(self.expected("a pattern in quotes, such as 'a*'"));
            };
            let pattern = pattern.clone();
            self.at += 1;
            Node::Like(Box::new(left), pattern)
        } else {
            return Ok(left);
        };
        Ok(Expression { node, at: begin..self.last_end() })
    }

    fn set(&mut self, what: Expression) -> Result<Node, Mistake> {
        // `in (1)..5` begins like a list. What was read of it is not read again: within each other, that would take twice as long each time.
        let least = match self.sign("(") {
            true => {
                let begin = self.tokens[self.at - 1].1.start;
                let mut members = vec![self.sum()?];
                while self.sign(",") {
                    members.push(self.sum()?);
                }
                if !self.sign(")") {
                    return Err(self.expected("',' or ')'"));
                }
                match <[Expression; 1]>::try_from(members) {
                    Ok([only]) if self.is_sign_next("..") => Expression { node: only.node, at: begin..self.last_end() },
                    Ok(only) => return Ok(Node::OneOf(Box::new(what), only.into())),
                    Err(members) => return Ok(Node::OneOf(Box::new(what), members)),
                }
            }
            false => self.sum()?,
        };
        if !self.sign("..") {
            return Err(self.expected("'..', as in 'in 0..10', or a list, as in 'in (1, 2)'"));
        }
        let most = self.sum()?;
        let step = match self.word("step") {
            true => Some(Box::new(self.sum()?)),
            false => None,
        };
        Ok(Node::Within(Box::new(what), Box::new(least), Box::new(most), step))
    }

    fn sum(&mut self) -> Parsed {
        self.computed(&[("+", Arithmetic::Plus), ("-", Arithmetic::Minus)], Parser::product)
    }

    fn product(&mut self) -> Parsed {
        self.computed(&[("*", Arithmetic::Times), ("%", Arithmetic::Remainder)], Parser::signed)
    }

    fn computed(&mut self, signs: &[(&str, Arithmetic)], part: fn(&mut Parser) -> Parsed) -> Parsed {
        let mut left = part(self)?;
        while let Some((_, arithmetic)) = signs.iter().find(|(sign, _)| self.sign(sign)) {
            let right = part(self)?;
            let at = left.at.start..right.at.end;
            self.operations += 1;
            if self.operations > MOST_OPERATIONS {
                return Err(Mistake::new(at, format!("a selector has at most {MOST_OPERATIONS} operations")));
            }
            left = Expression { node: Node::Computed(*arithmetic, Box::new(left), Box::new(right)), at };
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        let begin = self.place().start;
        let mut is_negative = false;
        while self.sign("-") {
            is_negative = !is_negative;
        }
        let atom = self.atom()?;
        let at = begin..atom.at.end;
        Ok(match is_negative {
            true => Expression { node: Node::Negated(Box::new(atom)), at },
            false => atom,
        })
    }

    fn atom(&mut self) -> Parsed {
        let Some((token, at)) = self.tokens.get(self.at).cloned() else {
            return Err(self.expected("a value, or the name of an attribute"));
        };
        self.at += 1;
        let node = match token {
            Token::Integer(number) => Node::Integer(number),
            Token::Real(number) => Node::Real(number),
            Token::Text(text) => Node::Text(text),
            Token::Variable(name) => Node::Variable(name),
            Token::Word(word) => match word.as_str() {
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                "has" => return self.has(at.start),
                "and" | "or" | "not" | "in" | "like" | "lt" | "le" | "gt" | "ge" => {
                    self.at -= 1;
                    return Err(self.expected("a value, or the name of an attribute"));
                }
                _ => Node::Name(word),
            },
            Token::Sign("(") => {
                let inner = self.any()?;
                if !self.sign(")") {
                    return Err(self.expected("')'"));
                }
                return Ok(Expression { node: inner.node, at: at.start..self.last_end() });
            }
            Token::Sign(_) => {
                self.at -= 1;
                return Err(self.expected("a value, or the name of an attribute"));
            }
        };
        Ok(Expression { node, at })
    }

    fn has(&mut self, begin: usize) -> Parsed {
        let is_open = self.sign("(");
        let Some((Token::Word(name), at)) = self.tokens.get(self.at).cloned().filter(|_| is_open) else {
            return Err(self.expected("the name of an attribute in parentheses, as in has(levelist)"));
        };
        self.at += 1;
        if !self.sign(")") {
            return Err(self.expected("')'"));
        }
        Ok(Expression { node: Node::Has(name, at), at: begin..self.last_end() })
    }

    fn next_comparison(&self) -> Option<Comparison> {
        let (token, _) = self.tokens.get(self.at)?;
        let comparison = match token {
            Token::Sign("=") => Comparison::Equal,
            Token::Sign("!=") => Comparison::Unequal,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::AtMost,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::AtLeast,
            Token::Word(word) => match word.as_str() {
                "lt" => Comparison::Less,
                "le" => Comparison::AtMost,
                "gt" => Comparison::Greater,
                "ge" => Comparison::AtLeast,
                _ => return None,
            },
            _ => return None,
        };
        Some(comparison)
    }

    fn sign(&mut self, wanted: &str) -> bool {
        let is_there = self.is_sign_next(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn is_sign_next(&self, wanted: &str) -> bool {
        matches!(self.tokens.get(self.at), Some((Token::Sign(sign), _)) if *sign == wanted)
    }

    fn word(&mut self, wanted: &str) -> bool {
        let is_there = matches!(self.tokens.get(self.at), Some((Token::Word(word), _)) if word == wanted);
        self.at += usize::from(is_there);
        is_there
    }

    /// Where the next token stands.
    fn place(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.end..self.end, |(_, at)| at.clone())
    }

    fn last_end(&self) -> usize {
        self.tokens[self.at - 1].1.end
    }

    fn expected(&self, what: &str) -> Mistake {
        let found = match self.tokens.get(self.at) {
            None => "the end".to_owned(),
            Some((Token::Word(word), _)) => format!("'{word}'"),
            Some((Token::Variable(name), _)) => format!("'${name}'"),
            Some((Token::Sign(sign), _)) => format!("'{sign}'"),
            Some((Token::Text(_), _)) => "a text".to_owned(),
            Some((Token::Integer(number), _)) => number.to_string(),
            Some((Token::Real(number), _)) => number.to_string(),
        };
        Mistake::new(self.place(), format!("found {found}, expected {what}"))
    }
}
